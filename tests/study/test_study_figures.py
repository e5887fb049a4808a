"""The study's figures, and the tables of its page."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from eree.figures.style import RISING
from eree.mechanisms.grid import ALPHAS, EPSILONS
from eree_study.figures.study import draw_grid, draw_limits
from eree_study.papers.comparison import Row
from eree_study.papers.ratios import page_tables
from eree_study.papers.report import PICTURES, grid_of, price_of_proof
from eree_study.papers.study import Part, Results, Study

DOCS = Path(__file__).parents[2] / "docs"
TICKS = {".25", ".5", ".67", "1", "2", "4"}


def unfinished(workload: str, points: dict[str, list[tuple[str, str]]]) -> Results:
    """A study of which only some points of some mechanisms were run."""
    rows = [
        Row("paper", workload, name, alpha, epsilon, 0.0, "all", "l1_ratio", 0.02, 0.0, 0)
        for name, those in points.items()
        for alpha, epsilon in those
    ]
    return Results(rows, {Part(workload, row.alpha, row.epsilon or "") for row in rows})


def texts(svg: Path) -> set[str]:
    """What a figure has as text; matplotlib names every glyph path in a comment."""
    return set(re.findall(r"<!-- (.*?) -->", svg.read_text(encoding="utf-8")))


@pytest.fixture
def study(tmp_path: Path) -> Study:
    return Study(tmp_path, jobs=1, trials=1, seed=1)


def test_an_alpha_has_its_colour_where_it_is_the_only_one(study: Study, tmp_path: Path) -> None:
    """As in the row of estimates, which are made at alpha 0.1 alone."""
    results = unfinished("workload-3-strong", {"auto-shrunk": [("0.1", "1"), ("0.1", "2")]})
    (picture,) = (one for one in PICTURES if one.name == "strong-figure-4")
    draw_grid(grid_of(study, results, picture), [tmp_path / "a.svg"])
    drawn = (tmp_path / "a.svg").read_text(encoding="utf-8")
    assert RISING[ALPHAS.index("0.1")] in drawn
    assert RISING[0] not in drawn


def test_every_epsilon_has_a_label_in_a_study_that_was_hardly_begun(
    study: Study, tmp_path: Path
) -> None:
    for epsilon in EPSILONS:
        results = unfinished("workload-1", {"auto": [("0.1", epsilon)]})
        draw_grid(grid_of(study, results, PICTURES[0]), [tmp_path / "grid.svg"])
        assert texts(tmp_path / "grid.svg") >= TICKS | {"1"}
        panels, note = price_of_proof(study, results)
        draw_limits(panels, note, [float(e) for e in EPSILONS], [tmp_path / "limits.svg"])
        assert texts(tmp_path / "limits.svg") >= TICKS


def test_a_figure_says_which_figure_of_which_paper_it_is_after(
    study: Study, tmp_path: Path
) -> None:
    results = unfinished("workload-1", {"auto": [("0.1", "2")]})
    grid = grid_of(study, results, PICTURES[0])
    draw_grid(grid, [tmp_path / "grid.svg"])
    assert "After Figure 1 of the paper, Figure 3 of the slides" in grid.title
    assert all(re.match(r"Figure \d of the (paper|report)", one.after) for one in PICTURES)


# ----------------------------------------------------------------------------- the page's tables


def test_the_tables_of_the_page_are_made_of_the_errors_beside_it() -> None:
    """What fails here is written anew from `study-errors.csv` of a finished study."""
    page = (DOCS / "study.md").read_text(encoding="utf-8")
    for table in page_tables(Results.of_all_places(DOCS / "study-errors.csv")):
        assert table in page
