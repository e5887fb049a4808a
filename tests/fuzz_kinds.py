"""Inputs that a fuzz makes of confidential data and of plans, and what it runs on them."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as parquet

from eree.mechanisms.registry import MECHANISMS
from fuzz_office import PLAN, SURVEY, WORKER, schema
from mutated_tables import some_csv, some_parquet
from mutations import Rng, some_bytes, some_json, some_toml

LEDGERS = ("ledger.db", "survey.db")


@dataclass(frozen=True)
class Command:
    """What to run, and which new files and folders it may leave if it is carried out.

    What is written for the public is searched for planted values; what is confidential is not.
    """

    arguments: list[str]
    public: tuple[str, ...] = ()
    confidential: tuple[str, ...] = ()


Make = Callable[[Path, Path, Rng], Command]


def have(office: Path, folder: Path, *names: str) -> None:
    """Put sound files and folders into the folder of an input; ledgers as copies."""
    for name in names:
        source, target = office / name, folder / name
        if source.is_dir():
            _same_folder(source, target)
        elif not target.exists():
            (shutil.copyfile if name in LEDGERS else os.link)(source, target)


def _same_folder(source: Path, target: Path) -> None:
    target.mkdir(exist_ok=True)
    for entry in os.scandir(source):
        if entry.is_dir():
            _same_folder(Path(entry.path), target / entry.name)
        else:
            os.link(entry.path, target / entry.name)


def put(path: Path, content: bytes) -> None:
    """Write a changed file in place of a sound one, which other inputs share."""
    path.unlink(missing_ok=True)
    path.write_bytes(content)


def ended(arguments: Sequence[str], rng: Rng) -> list[str]:
    return [*arguments, *(["--json"] if rng.random() < 0.4 else [])]


def on_data(office: Path, folder: Path, rng: Rng) -> Command:
    """A command that reads linked tables in the folder `data`."""
    have(office, folder, "plan.toml", "ledger.db")
    by = rng.choice(("county,sector", "state,sex,grade", "tract", "goods", "rank", ""))
    match rng.choices(("check", "tabulate", "infuse", "plan", "release"), (6, 2, 1, 1, 2))[0]:
        case "check":
            return Command(ended(["check", "data"], rng))
        case "tabulate":
            bound = rng.choice(([], ["--drop-from", "9"], ["--scale-to", "5"]))
            out = rng.choice(("cells.csv", "cells.parquet"))
            given = ["tabulate", "data", "--by", by, *bound, "--out", out]
            return Command(ended(given, rng), confidential=(out,))
        case "infuse":
            given = ["infuse", "data", "--by", by, "--key", "key.txt", "--new-key"]
            given += ["--out", "infused.csv"]
            return Command(ended(given, rng), ("infused.csv",), ("key.txt",))
        case "plan":
            given = ["plan", "plan.toml", "--memo", "memo.md"]
            return Command(ended(given, rng), ("memo.md",))
    given = ["release", "plan.toml", "--out", "out", "--ledger", "ledger.db"]
    return Command(ended(given, rng), ("out",))


def make_schema(office: Path, folder: Path, rng: Rng) -> Command:
    have(office, folder, "csv")
    (folder / "csv").rename(folder / "data")
    words = [
        "file",
        "key",
        "values",
        "labels",
        "of",
        "members",
        "type",
        "integer",
        "string",
        "county",
    ]
    words += ["confidential", "ignore", "primary", "sex", "sector", "goods.csv", "worker_id", "job"]
    words.append({"greatest": "worker_id"})
    put(folder / "data" / "schema.toml", some_toml(schema("csv"), rng, words))
    return on_data(office, folder, rng)


def make_linked_csv(office: Path, folder: Path, rng: Rng) -> Command:
    have(office, folder, "csv")
    (folder / "csv").rename(folder / "data")
    for name in rng.sample(("workplace", "worker", "job", "county"), rng.choice((1, 1, 2))):
        path = folder / "data" / f"{name}.csv"
        put(path, some_csv(path.read_bytes(), rng, (f"{WORKER}0", "171", "F")))
    return on_data(office, folder, rng)


def make_linked_parquet(office: Path, folder: Path, rng: Rng) -> Command:
    have(office, folder, "parquet")
    (folder / "parquet").rename(folder / "data")
    for name in rng.sample(("workplace", "worker", "job", "county"), rng.choice((1, 1, 2))):
        path = folder / "data" / f"{name}.parquet"
        table = parquet.read_table(path)
        path.unlink()
        some_parquet(table, path, rng, (f"{WORKER}0", "171", "F"))
    return on_data(office, folder, rng)


def make_plan(office: Path, folder: Path, rng: Rng) -> Command:
    have(office, folder, "csv", "sizes.csv", "shares.csv", "ledger.db", "key.pem")
    (folder / "csv").rename(folder / "data")
    words: list[Any] = ["1", "2", "1/2", "0", "county", "sex", "sector", "strong", "weak", "edge"]
    words += ["share", "target", "delta", "mechanism", "parameters", "types", "where", *MECHANISMS]
    words += ["count", "workplaces", "sizes", "pooled_from", 0, [1, 2, 9]]
    words += [{"cells": "0.9", "jobs": 100, "within": "0.5"}, ["sex"], ["county", "sex"]]
    put(folder / "plan.toml", some_toml(PLAN, rng, words))
    if rng.random() < 0.7:
        given = ["plan", "plan.toml"]
        given += rng.choice(([], [], ["--sizes", "sizes.csv"]))
        given += rng.choice(([], ["--ledger", "ledger.db"], ["--memo", "memo.md"]))
        return Command(ended(given, rng), ("memo.md",))
    given = ["release", "plan.toml", "--out", "out", "--ledger", "ledger.db"]
    given += rng.choice(([], ["--sign", "key.pem"]))
    return Command(ended(given, rng), ("out",))


def on_survey(office: Path, folder: Path, rng: Rng) -> Command:
    """A command that reads the survey in the folder `survey`."""
    # a sound assessment draws pictures for seconds
    match rng.choices(("check", "build", "assess"), (60, 38, 2))[0]:
        case "check":
            return Command(ended(["cube", "check", "survey"], rng))
        case "build":
            given = ["cube", "build", "survey", "--out", "new.cube"]
            given += rng.choice(([], ["--most-weight", "2500"], ["--most-records", "1"]))
            given += rng.choice(([], ["--variables", "job,licence"]))
            return Command(ended(given, rng), confidential=("new.cube",))
    have(office, folder, "survey.cube", "cube")
    given = ["cube", "assess", "survey.cube", "cube", "--out", "report", "--survey", "survey"]
    return Command(ended(given, rng), ("report/public.md",), ("report",))


def make_survey(office: Path, folder: Path, rng: Rng) -> Command:
    have(office, folder, "survey-csv")
    (folder / "survey-csv").rename(folder / "survey")
    words = ["id", "place", "weight", "job", "education", "degree", "29-1210", "codes", "labels"]
    words += ["r1", "file", "ignore", "scale", "records.csv", "licence"]
    put(folder / "survey" / "survey.toml", some_toml(SURVEY, rng, words))
    return on_survey(office, folder, rng)


def make_microdata(office: Path, folder: Path, rng: Rng) -> Command:
    style = rng.choice(("csv", "parquet"))
    have(office, folder, f"survey-{style}")
    (folder / f"survey-{style}").rename(folder / "survey")
    path = folder / "survey" / f"records.{style}"
    planted = (f"{WORKER}0", "0.001", "1e9", "29-1215", "none")
    if style == "csv":
        put(path, some_csv(path.read_bytes(), rng, planted))
    else:
        table = parquet.read_table(path)
        path.unlink()
        some_parquet(table, path, rng, planted)
    return on_survey(office, folder, rng)


def make_cube_file(office: Path, folder: Path, rng: Rng) -> Command:
    """The confidential cube: a line, the length of a header, the header, cells and a digest."""
    have(office, folder, "survey.db", "cube", "key.pem")
    raw = (office / "survey.cube").read_bytes()
    start = raw.index(b"{")
    length = int.from_bytes(raw[start - 8 : start], "big")
    header, cells = raw[start : start + length], raw[start + length : -32]
    way = rng.random()
    if way < 0.6:
        header = some_json(json.loads(header), rng, ["codes", "job", "9", 4, "soc"])
    elif way < 0.8:
        cells = some_bytes(cells, rng)
    body = raw[: start - 8] + len(header).to_bytes(8, "big") + header + cells
    raw = body + hashlib.sha256(body).digest()
    put(folder / "survey.cube", raw if way < 0.8 else some_bytes(raw, rng))
    settings = ["--epsilon", "2", *rng.choice(([], ["--control", "education"]))]
    settings += rng.choice(([], [], ["--unit", "establishment"], ["--calibration", "rake"]))
    match rng.choices(("plan", "protect", "assess"), (60, 35, 5))[0]:
        case "plan":
            return Command(ended(["cube", "plan", "survey.cube", *settings], rng))
        case "protect":
            given = ["cube", "protect", "survey.cube", *settings, "--ledger", "survey.db"]
            return Command(ended([*given, "--out", "out"], rng), ("out",))
    given = ["cube", "assess", "survey.cube", "cube", "--out", "report"]
    return Command(ended(given, rng), ("report/public.md",), ("report",))
