"""What a reviewer gets: records that agree with the release, and a check without eree."""

from __future__ import annotations

import ast
import json
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

import eree
import eree_study
import offices
import pages
from eree.estimate.review import ANSWERS, CATALOGUE, REGISTRY, TO_SAY
from town import Town

SCRIPT = pages.ROOT / "examples" / "check_release.py"
ABOUT = {
    "title": "Jobs of the town",
    "publisher": "The office",
    "contact": "desk",
    "licence": "CC0",
}


@pytest.fixture(scope="module")
def office(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A signed release, the ledger that paid for it, and the key."""
    folder = tmp_path_factory.mktemp("office")
    data = eree_study.synthesize(folder / "data", jobs=2_000)
    tables = [table | {"mechanism": "smooth-pareto"} for table in offices.settings()["table"]]
    plan = eree.Plan.of(offices.settings(data, about=ABOUT, period="2026-Q1", table=tables))
    ledger = eree.Ledger.create(folder / "ledger.db", offices.TOTAL, data_set="data")
    key = Ed25519PrivateKey.generate()
    out, loaded = folder / "out", eree.load(data)
    eree.publish(plan, loaded, ledger=ledger, out=out, signer=eree.Signer(key))
    for name, one in (("key.pem", key), ("other.pem", Ed25519PrivateKey.generate())):
        pem = one.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
        (folder / name).write_bytes(pem)
    return folder


@pytest.fixture
def copy(office: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(office, tmp_path / "office"))


# ------------------------------------------------------------------------------- the records


def test_a_record_for_reviewers_says_what_the_release_says(copy: Path) -> None:
    done = pages.command("record", "out", "--out", "review", "--address", "https://host/", cwd=copy)
    assert (done.status, done.err) == (0, "")
    release, review = eree.Release.open(copy / "out"), copy / "review"
    assert {path.name for path in review.iterdir()} == {ANSWERS, REGISTRY, CATALOGUE}
    page = (review / ANSWERS).read_text(encoding="utf-8")
    for words in (*release.record["statements"], release.record["digest"], "epsilon 3, delta 0"):
        assert words in page
    for title in ("Privacy parameters", "Unit of privacy", "Trust model", "Side channels"):
        assert f"## {title}" in page
    assert f"{ANSWERS}: {page.count(TO_SAY)} places for the office" in done.out
    again = pages.command("record", "out", "--out", "review", cwd=copy)
    assert (again.status, again.err.count("\n")) == (2, 1)


#: All fields of the registry's third tier, by the parts of an entry.
TIER_3 = {
    "basic": "name data_curators description intended_use data_product_type data_product_region"
    " data_product_sector publication_date",
    "dp_variant": "variant_name data_domain unprotected_quantities",
    "privacy_loss": "privacy_unit privacy_unit_details number_of_privacy_units privacy_parameters"
    " privacy_parameters_details",
    "deployment_model": "model_name model_name_details trust_assumptions actors release_type"
    " release_type_details data_source_type data_source_type_details access_type"
    " access_type_details",
    "implementation": "preprocessing_and_hyperparameter_tuning mechanisms composition"
    " post_processing justification utility additional_information",
    "administrative": "evidence_sources status registry_authors tier",
}


def test_the_entry_for_the_registry_has_all_fields_of_its_third_tier(copy: Path) -> None:
    eree.write_review(copy / "out", copy / "review")
    entry = yaml.safe_load((copy / "review" / REGISTRY).read_text(encoding="utf-8"))
    assert set(entry) == {"url_slug", "deployment"}
    found = {part: set(fields) for part, fields in entry["deployment"].items()}
    assert found == {part: set(fields.split()) for part, fields in TIER_3.items()}
    loss, basic = entry["deployment"]["privacy_loss"], entry["deployment"]["basic"]
    assert loss["privacy_parameters"] == {"epsilon": 3.0}
    assert entry["deployment"]["dp_variant"]["variant_name"] == "Pure DP"
    assert (basic["name"], basic["data_curators"][0]["data_curator_name"]) == (
        ABOUT["title"],
        ABOUT["publisher"],
    )
    assert entry["deployment"]["administrative"]["tier"] == 3
    assert all(value != "" for part in entry["deployment"].values() for value in part.values())


def test_the_unit_is_what_the_neighbours_and_the_choice_of_jobs_make_it(tmp_path: Path) -> None:
    """Edge neighbours protect no workplace, and a chosen job is two steps."""
    town = Town()
    town.tables["job"]["pay"] = [1, 2, 3, 4, 5, 6]
    town.schema["job"]["primary"] = {"greatest": "pay"}
    data = town.write(tmp_path / "data")
    privacy = {"neighbours": "edge", "epsilon": "1"}
    table = {"name": "t", "by": ["county"], "epsilon": "1"}
    plan = eree.Plan.of({"data": str(data), "privacy": privacy, "table": [table]})
    total = eree.Guarantee(eree.EDGE, 1)
    ledger = eree.Ledger.create(tmp_path / "ledger.db", total, data_set="data")
    release = eree.publish(plan, eree.load(data), ledger=ledger, out=tmp_path / "out")
    made = eree.write_review(release, tmp_path / "review")
    text = "".join(path.read_text(encoding="utf-8") for path in made.folder.iterdir())
    assert "Worker (edge neighbours)" in text
    assert "workplace (edge" not in text
    assert "held fixed" in text


def test_the_entry_for_catalogues_names_every_file_with_its_digest(copy: Path) -> None:
    made = eree.write_review(copy / "out", copy / "review", address="https://host/tables/")
    entry = json.loads((copy / "review" / CATALOGUE).read_text(encoding="utf-8"))
    assert made.open[CATALOGUE] == 1  # where the data come from was not said
    assert entry["@type"] == "dcat:Dataset"
    assert entry["dcterms:title"] == ABOUT["title"]
    assert entry["dcterms:temporal"]["rdfs:label"] == "2026-Q1"
    tables = eree.Release.open(copy / "out").record["tables"]
    files = {name: digest for table in tables for name, digest in table["files"].items()}
    found = {
        one["dcterms:title"]: one["spdx:checksum"]["spdx:checksumValue"]
        for one in entry["dcat:distribution"]
    }
    assert found == files
    for one in entry["dcat:distribution"]:
        assert one["dcat:downloadURL"]["@id"] == f"https://host/tables/{one['dcterms:title']}"
        size = (copy / "out" / one["dcterms:title"]).stat().st_size
        assert one["dcat:byteSize"]["@value"] == str(size)
    prefixes = {key.partition(":")[0] for key in entry if ":" in key}
    assert prefixes <= entry["@context"].keys()


def test_what_is_not_private_has_no_record_for_reviewers(
    release: eree.Release, tmp_path: Path
) -> None:
    with pytest.raises(eree.Refusal, match="is not private: there is nothing to review"):
        eree.write_review(release, tmp_path / "review")
    assert not (tmp_path / "review").exists()


# ------------------------------------------------------------------------ a check without eree


def checked(folder: Path, *more: str) -> tuple[int, str]:
    words = [sys.executable, "-I", str(SCRIPT), "out", *(more or ("--key", "key.pem"))]
    done = subprocess.run(
        [*words, "--ledger", "ledger.db"], cwd=folder, capture_output=True, text=True
    )
    assert done.stderr == ""
    return done.returncode, done.stdout


def test_a_script_without_eree_finds_a_sound_release_sound(copy: Path) -> None:
    assert eree.verify(copy / "out").sound
    status, words = checked(copy)
    assert (status, words.splitlines()[-1]) == (0, "out: nothing was changed")
    assert "ledger.db: 3 entries, head " in words
    imported = {
        name
        for node in ast.walk(ast.parse(SCRIPT.read_text(encoding="utf-8")))
        for name in (
            [alias.name for alias in node.names]
            if isinstance(node, ast.Import)
            else [node.module or ""]
            if isinstance(node, ast.ImportFrom)
            else []
        )
    }
    outside = {name.partition(".")[0] for name in imported} - sys.stdlib_module_names
    assert outside == {"cryptography"}


def edited(folder: Path, **changes: Any) -> None:
    path = folder / "out" / "release.json"
    record = json.loads(path.read_text(encoding="utf-8")) | changes
    path.write_text(json.dumps(record), encoding="utf-8")


def spoil_table(folder: Path) -> None:
    path = folder / "out" / "tables" / "sectors.csv"
    path.write_bytes(path.read_bytes().replace(b"1", b"2", 1))


def spoil_ledger(folder: Path) -> None:
    with sqlite3.connect(folder / "ledger.db") as opened:
        for (name,) in opened.execute("select name from sqlite_master where type = 'trigger'"):
            opened.execute(f"drop trigger {name}")
        opened.execute("update eree_ledger set body = replace(body, '3', '1') where number = 2")


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (spoil_table, "tables/sectors.csv: was changed"),
        (lambda f: (f / "out" / "tables" / "women.csv").unlink(), "women.csv: is missing"),
        (lambda f: (f / "out" / "more").write_text("x"), "more: is not part of the release"),
        (lambda f: edited(f, level="1/2"), "the digest is not that of the record"),
        (lambda f: edited(f, rehearsal=True), "it is a rehearsal"),
        (lambda f: edited(f, private=False), "does not claim to be private"),
        (lambda f: edited(f, signature=None), "it is not signed"),
        (lambda f: edited(f, digest="0" * 64), "the signature does not belong to the record"),
        (lambda f: edited(f, ledger={"id": "0", "entry": 2, "hash": "0"}), "is not the ledger"),
        (lambda f: shutil.copy(f / "other.pem", f / "key.pem"), "the signature is by another key"),
        (spoil_ledger, "entry 2 does not follow from the one before"),
    ],
)
def test_a_script_without_eree_finds_what_was_changed(copy: Path, spoil: Any, said: str) -> None:
    spoil(copy)
    status, words = checked(copy)
    assert status == 1
    assert said in words
