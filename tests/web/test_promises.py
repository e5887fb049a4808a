"""Pages promise what the guarantee and the distribution of a data set give, and no more."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import eree
from eree.mechanisms.registry import MECHANISMS, OF_MARGINALS, VECTOR_MECHANISMS
from eree.policy.neighbours import RECORD
from eree.survey.laplace import ShiftNoise
from eree.web.catalogue import Catalogue
from eree.web.export import notes
from eree.web.linked import LinkedTable
from eree.web.methods import DESCRIPTIONS
from eree.web.query import Query
from eree.web.site import Site

pytestmark = pytest.mark.xdist_group("promises")  # the releases are made once

#: The plans of releases, by their relations; the name of a table tells what its figures are.
PLANS: dict[str, list[dict[str, Any]]] = {
    "edge": [{"name": "fair"}],
    "node": [{"name": "cut", "mechanism": "truncated-laplace", "parameters": {"theta": 50}}],
    "strong": [
        {"name": "lean"},
        {"name": "round", "mechanism": "log-laplace-tight"},
        {"name": "skew", "mechanism": "log-laplace-tight", "parameters": {"aim": "absolute"}},
        {"name": "skewed", "mechanism": "linlog"},
        {"name": "fairest", "mechanism": "smooth-pareto"},
        {"name": "staged", "by": ["county", "sex"], "mechanism": "two-stage-clip", "epsilon": "4"},
        {"name": "fair-sex", "by": ["county", "sex"], "mechanism": "vector-radial"},
        {"name": "fair-women", "by": ["county", "sex"], "where": {"sex": ["F"]}},
    ],
}
WORDS = {
    "fair": "",
    "cut": "left out",
    "skew": "off on average",
    "staged": "scaled down",
    "lean": "is asymmetric",
    "round": "but for their rounding",
}


@pytest.fixture(scope="module")
def promised(releases: list[Path], tmp_path_factory: pytest.TempPathFactory) -> Site:
    home = tmp_path_factory.mktemp("promised")
    data = eree.load(releases[0].parent / "data")
    for name, tables in PLANS.items():
        given = {"by": ["county"], "epsilon": "2"}
        alpha = {"alpha": "0.1"} if name == "strong" else {}
        plan = eree.Plan.of(
            {
                "data": str(data.folder),
                "privacy": {"neighbours": name, "epsilon": "20"} | alpha,
                "table": [given | table for table in tables],
            }
        )
        ledger = eree.Ledger.create(home / f"{name}.db", plan.total, data_set="data")
        eree.publish(plan, data, ledger=ledger, out=home / name)
    return Site(Catalogue.open([home / name for name in PLANS]), "http://home")


def test_bias_is_reported_wherever_figures_are(promised: Site) -> None:
    reported = set()
    for data in promised.catalogue.data_sets:
        assert isinstance(data, LinkedTable)
        (words,) = (WORDS[name] for name in WORDS if data.table.startswith(name))
        reported.add(words)
        noise = " ".join(data.noise())
        assert ("Estimates are right on average" in noise) == (not words) and words in noise
        assert bool(data.bias) == bool(words)
        assert (data.bias in promised.table(data.name, "", False).body.decode()) or not words
        assert words in " ".join(notes(data, Query(), ()))
    assert reported == set(WORDS.values())
    methods = promised.methods("").body.decode()
    biased = [data for data in promised.catalogue.data_sets if data.bias]
    assert "These are not, and their pages say" in methods and len(biased) == 6


def test_every_mechanism_is_explained_in_words_of_its_own(promised: Site) -> None:
    drawn = {ShiftNoise(eree.Guarantee(RECORD, 1), 1, cap).name for cap in (None, 3)}
    assert set(DESCRIPTIONS) == {*MECHANISMS, *VECTOR_MECHANISMS, OF_MARGINALS, *drawn}
    assert len(set(DESCRIPTIONS.values())) == len(DESCRIPTIONS)
    methods = promised.methods("").body.decode()
    assert "plateau" in methods and "stand in the record" not in methods
    (lean,) = (data for data in promised.catalogue.data_sets if "lean" in data.name)
    assert "a digest of them," in " ".join(lean.noise())
    assert "up to 531 workers" in " ".join(lean.noise())  # as at any office: alpha 0.1, epsilon 2
    assert "All of these numbers follow from alpha and epsilon, none from the data" in " ".join(
        lean.noise()
    )
    assert "add up: that of a total is found for the sum" in " ".join(notes(lean, Query(), ()))


def test_a_loss_that_is_kept_from_before_is_not_said_to_be_computed_now(promised: Site) -> None:
    for data in promised.catalogue.data_sets:
        page = promised.about(data.name, "", False).body.decode()
        assert "by the same code that runs here: when this tool was started, or before." in page


def test_every_table_tells_what_was_paid_for_it(promised: Site) -> None:
    for data in promised.catalogue.data_sets:
        assert isinstance(data, LinkedTable)
        epsilon = 4 if data.table == "staged" else 2
        assert f"For this table the release paid epsilon {epsilon}" in " ".join(data.noise())


def test_workers_whom_a_filter_leaves_out_have_rows_of_their_own(promised: Site) -> None:
    """A table of women by sex has a row of men, who are none but for noise."""
    (women,) = (data for data in promised.catalogue.data_sets if "women" in data.name)
    (sex,) = (variable for variable in women.variables if variable.name == "sex")
    assert sex.codes == ("F", "M")
    assert promised.table(women.name, "rows=sex", False).body


def test_only_a_relation_with_alpha_hides_sizes_within_it(promised: Site) -> None:
    for data in promised.catalogue.data_sets:
        page = promised.about(data.name, "", False).body.decode()
        strong = data.guarantee.neighbours.name == "strong"
        assert ("within a share of alpha" in page) == strong
        edge = data.guarantee.neighbours.name == "edge"
        assert ("no workplace: how large one is may be found out" in page) == edge
