"""The synthetic survey: sound, the same for a seed, and like the survey that it stands for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from eree.errors import Refusal
from eree.survey.checked import Survey
from eree.survey.cube import build_cube
from eree.survey.microdata import read_survey
from eree.survey.query import Query
from eree.survey.soc import group_of, titles
from eree.survey.tables import Tabulator
from eree.workload import JOB
from eree_study.synth.survey import synthesize_survey


@pytest.fixture(scope="module")
def survey(tmp_path_factory: pytest.TempPathFactory) -> Survey:
    folder = tmp_path_factory.mktemp("made") / "survey"
    return read_survey(synthesize_survey(folder, establishments=2_000, replicates=80))


def shares(survey: Survey, variable: str, **where: list[str]) -> np.ndarray:
    """The weighted shares of a variable's codes."""
    found = Tabulator(survey.shape, build_cube(survey).weighted).table(Query([variable], where))
    return np.asarray(found.values / found.values.sum())


def test_the_made_up_survey_is_sound_and_has_real_titles(survey: Survey) -> None:
    assert len(np.unique(survey.establishments)) == 2_000
    occupation = survey.shape.variable("occupation")
    assert len(occupation.codes) >= 60
    assert list(occupation.labels) == [titles()["detailed"][code] for code in occupation.codes]
    assert len({group_of(code, "major") for code in occupation.codes}) == 22
    assert all(2 <= level <= 5 for level in survey.shape.levels[1:])
    names = [variable.name for variable in survey.shape.variables]
    assert {"education", "experience", "strength"} <= set(names)
    assert survey.shape.impossible


def test_no_establishment_names_an_occupation_twice(survey: Survey) -> None:
    pairs = np.stack([survey.establishments, survey.answers["occupation"]])
    assert len(np.unique(pairs, axis=1).T) == len(survey.weights)
    per_place = np.bincount(survey.establishments)
    assert per_place.min() == 1
    assert 4 < per_place.max() <= 8


def test_weights_are_inverse_chances(survey: Survey) -> None:
    weights = survey.weights / JOB
    assert weights.min() >= 1
    assert 5 < np.quantile(weights, 0.99) / np.quantile(weights, 0.01) < 1_000
    # The employment that the sample stands for is that of the frame, about 100 establishments of
    # 20.7 jobs for each that was asked, of whom seven in ten respond: systematic draws by size hit
    # it almost exactly, whatever the seed.
    assert weights.sum() == pytest.approx(2_000 / 0.7 * 100 * 20.7, rel=0.01)


def test_requirements_depend_on_the_occupation(survey: Survey) -> None:
    health, service = ["29-0000"], ["35-0000"]
    educated = [
        shares(survey, "education", occupation=group)[2:].sum() for group in (health, service)
    ]
    assert educated[0] > 0.7 > 0.1 > educated[1]
    office, building = ["43-0000"], ["47-0000"]
    heavy = [shares(survey, "strength", occupation=group)[3:].sum() for group in (office, building)]
    assert heavy[0] < 0.1 < 0.5 < heavy[1]
    licensed = shares(survey, "licence", occupation=health)[1]
    assert licensed > 0.7 > shares(survey, "licence")[1]


def test_every_code_is_found_and_none_is_everything(survey: Survey) -> None:
    for variable in survey.shape.variables:
        found = shares(survey, variable.name)
        assert found.min() > 0
        assert found.max() < 0.9


def test_replicate_weights_show_the_sampling_error(survey: Survey) -> None:
    """Factors of successive difference replication are 1 and 1 ± 1/sqrt(2), and 1 on average."""
    assert survey.replicates is not None
    factors = survey.replicates / (survey.weights / JOB)
    kinds = np.array([1 - 2**-0.5, 1.0, 1 + 2**-0.5])
    assert np.allclose(np.abs(factors[..., None] - kinds).min(axis=-1), 0, atol=1e-3)
    assert np.allclose(factors.mean(axis=0), 1, atol=1e-3)
    for number in np.unique(survey.establishments)[:50]:
        own = factors[:, survey.establishments == number]
        assert np.allclose(own, own[:, :1], atol=1e-3)  # an establishment moves as one
    assert survey.declaration.replicate_scale == 4 / 80
    total = survey.replicates.sum(axis=1)
    estimate = survey.weights.sum() / JOB
    error = np.sqrt(4 / 80 * ((total - estimate) ** 2).sum())
    assert 0 < error < 0.1 * estimate


def test_the_same_seed_makes_the_same_files_and_another_makes_others(tmp_path: Path) -> None:
    made = [
        synthesize_survey(tmp_path / str(i), establishments=50, seed=seed, replicates=8)
        for i, seed in enumerate((3, 3, 4))
    ]
    files = [{f.name: f.read_bytes() for f in sorted(folder.iterdir())} for folder in made]
    assert sorted(files[0]) == ["records.parquet", "survey.toml"]
    assert files[0] == files[1]
    assert files[0]["records.parquet"] != files[2]["records.parquet"]


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_the_shape_of_query_tools_test_is_exact(tmp_path: Path, seed: int) -> None:
    survey = read_survey(synthesize_survey(tmp_path / "q", shape="querytool", seed=seed))
    assert survey.shape.levels == (5, 4, 3, 3, 3, 2, 2, 2, 2, 2)
    assert survey.shape.size == 17_280
    assert survey.shape.possible is None
    assert len(survey.weights) == 182
    assert int(build_cube(survey).unweighted.sum()) == 182


@pytest.mark.parametrize("establishments", [1, 2, 7, 20_000])
def test_a_survey_may_have_any_size(tmp_path: Path, establishments: int) -> None:
    survey = read_survey(synthesize_survey(tmp_path / "s", establishments=establishments))
    assert len(np.unique(survey.establishments)) == establishments


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"establishments": 0}, "has 1 to 1,000,000 establishments"),
        ({"establishments": 10**7}, "has 1 to 1,000,000 establishments"),
        ({"establishments": 1.5}, "establishments must be an integer"),
        ({"seed": -1}, "seed must be an integer"),
        ({"seed": True}, "seed must be an integer"),
        ({"shape": "cube"}, "choose 'ors' or 'querytool'"),
        ({"replicates": 3}, "replicates are 0, or 4 to 256, such as 80"),
        ({"replicates": 5}, "no Hadamard matrix of order 5 here; take 80"),
        ({"replicates": True}, "replicates must be an integer"),
    ],
)
def test_what_cannot_be_made_is_refused(
    tmp_path: Path, settings: dict[str, Any], words: str
) -> None:
    with pytest.raises(Refusal, match=words):
        synthesize_survey(tmp_path / "s", **settings)
    assert not list(tmp_path.iterdir())


def test_a_folder_that_holds_something_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("mine", encoding="utf-8")
    with pytest.raises(Refusal, match="is not empty"):
        synthesize_survey(tmp_path)
