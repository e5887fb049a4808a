"""Inputs that a fuzz makes of releases, ledgers, maps and small files, and what it runs on them."""

from __future__ import annotations

import json
import sqlite3
import tomllib
from contextlib import closing, suppress
from pathlib import Path

import pyarrow.parquet as parquet

from eree.release.record import RECORD, digest_of, file_digest
from fuzz_kinds import Command, ended, have, on_data, put
from fuzz_office import PLAN
from mutated_tables import some_csv, some_parquet
from mutations import Rng, as_utf8, odd_value, some_bytes, some_json, some_toml, toml_text

#: The folders of a release, which are parts of its record as well.
HOMES = ("tables", "areas", "members")


def on_release(office: Path, folder: Path, rng: Rng) -> Command:
    """A command that reads the release in the folder `release`."""
    have(office, folder, "damage.csv", "columns.toml", "ledger.db", "areas.geojson", "public.pem")
    lines: tuple[list[str], ...] = (
        ["verify", "release"],
        ["verify", "release", "--ledger", "ledger.db", "--key", "public.pem"],
        ["rank", "release", "jobs", "--by", "county", "--where", "sector=11"],
        ["rank", "release", "people", "--by", "county,sex", "--out", "out.csv"],
        ["threshold", "release", "jobs", "--by", "county", "--damage", "damage.csv"],
        ["lodes", "release", "--geocode", "county", "--columns", "columns.toml"],
        ["shrink", "release", "people", "--out", "out.csv"],
        ["strata", "release", "sizes", "--cut", "3", "--out", "out.csv"],
        ["ledger", "verify", "ledger.db", "--against", "release"],
        ["serve", "release", "--port", "0", "--map", "county=areas.geojson"],
    )
    given = list(rng.choice(lines))
    if given[0] == "threshold":
        given += ["--per-job", "3.50"]
    if given[0] == "lodes":
        given += ["--out", "out.csv"]
    return Command(ended(given, rng), ("out.csv",))


def agreeing(folder: Path, rng: Rng) -> None:
    """Often give a changed record and changed files the digests that belong to them."""
    with suppress(ValueError, TypeError, KeyError, AttributeError, RecursionError, OSError):
        record = json.loads((folder / RECORD).read_bytes())
        if rng.random() < 0.7:
            for home in HOMES:
                for one in record.get(home, ()):
                    for name in one["files"]:
                        one["files"][name] = file_digest(folder / name)
        if rng.random() < 0.8:
            record["digest"] = digest_of(record)
            record.pop("signature", None)
            put(folder / RECORD, as_utf8(json.dumps(record, indent=1, ensure_ascii=False) + "\n"))


RECORD_WORDS = ["name", "by", "where", "county", "sex", "jobs", "strong", "1/10", "epsilon", "auto"]
RECORD_WORDS += ["leaning-staircase", "log-laplace", "each", "values", "worker", "0", "-1", "cells"]


def _spoilt_record(folder: Path, rng: Rng) -> None:
    record = json.loads((folder / RECORD).read_bytes())
    put(folder / RECORD, some_json(record, rng, RECORD_WORDS))
    agreeing(folder, rng)


def _spoilt_table(folder: Path, rng: Rng) -> None:
    path = rng.choice(sorted(path for home in HOMES for path in (folder / home).glob("*")))
    if path.suffix == ".csv":
        put(path, some_csv(path.read_bytes(), rng))
    else:
        table = parquet.read_table(path)
        path.unlink()
        some_parquet(table, path, rng)
    agreeing(folder, rng)


def make_record(office: Path, folder: Path, rng: Rng) -> Command:
    have(office, folder, "release")
    _spoilt_record(folder / "release", rng)
    return on_release(office, folder, rng)


def make_tables(office: Path, folder: Path, rng: Rng) -> Command:
    have(office, folder, "release")
    _spoilt_table(folder / "release", rng)
    return on_release(office, folder, rng)


def make_protected(office: Path, folder: Path, rng: Rng) -> Command:
    """A protected cube, by its record or its cells."""
    have(office, folder, "cube", "survey.cube", "survey.db")
    (_spoilt_record if rng.random() < 0.6 else _spoilt_table)(folder / "cube", rng)
    lines = (
        ["cube", "show", "cube", "--by", "education,licence", "--where", "job=29-0000"],
        ["cube", "show", "cube", "--by", "job", "--level", "job=major", "--out", "out.csv"],
        ["cube", "show", "cube"],
        ["verify", "cube"],
        ["verify", "cube", "--ledger", "survey.db"],
        ["serve", "cube", "--port", "0"],
        ["ledger", "verify", "survey.db", "--against", "cube"],
        ["cube", "assess", "survey.cube", "cube", "--out", "report"],
    )
    given = rng.choices(lines, (20,) * (len(lines) - 1) + (2,))[0]
    return Command(ended(given, rng), ("out.csv", "report/public.md"), ("report",))


def make_ledger(office: Path, folder: Path, rng: Rng) -> Command:
    """A ledger by the bytes of its file, or by its rows and its own declarations."""
    have(office, folder, "csv", "plan.toml", "ledger.db", "release")
    (folder / "csv").rename(folder / "data")
    path = folder / "ledger.db"
    if rng.random() < 0.5:
        put(path, some_bytes(path.read_bytes(), rng))
    else:
        with closing(sqlite3.connect(path)) as opened:
            for _ in range(rng.choice((1, 1, 2))):
                with suppress(sqlite3.Error, OverflowError):
                    _spoil_rows(opened, rng)
                    opened.commit()
    lines = (
        ["ledger", "show", "ledger.db"],
        ["ledger", "verify", "ledger.db"],
        ["ledger", "verify", "ledger.db", "--against", "release"],
        ["verify", "release", "--ledger", "ledger.db"],
        ["plan", "plan.toml", "--ledger", "ledger.db"],
        ["release", "plan.toml", "--out", "out", "--ledger", "ledger.db"],
        ["ledger", "create", "ledger.db", "--neighbours", "node", "--epsilon", "1"],
    )
    return Command(ended(rng.choice(lines), rng), ("out",))


def _spoil_rows(opened: sqlite3.Connection, rng: Rng) -> None:
    """Change a row, a declaration or a number in the file's head, past what guards them."""
    found = opened.execute("select type, name from sqlite_master order by name").fetchall()
    for kind, name in found:
        if kind == "trigger" and rng.random() < 0.9:
            opened.execute(f'drop trigger "{name}"')
    (table,) = rng.choices([name for kind, name in found if kind == "table"] or ["none"])
    columns = [row[1] for row in opened.execute(f'pragma table_info("{table}")')]
    if not columns:  # the change before took the last table away
        return
    column, odd = rng.choice(columns), odd_value(rng)
    text = odd.encode("utf-8", "replace").decode() if isinstance(odd, str) else json.dumps(odd)
    value = odd if isinstance(odd, (int, float)) else text
    some = rng.randint(1, 3)
    change = rng.choice(("set", "set", "tree", "tree", "tree", "drop", "copy", "table", "head"))
    if change == "set":
        blob = as_utf8(str(value)) if rng.random() < 0.2 else value
        opened.execute(f'update "{table}" set "{column}" = ? where rowid = ?', (blob, some))
    elif change == "tree":
        for name in columns:
            text = opened.execute(f'select "{name}" from "{table}" where rowid = ?', (some,))
            with suppress(ValueError, TypeError):
                tree = json.loads(text.fetchone()[0])
                if isinstance(tree, dict):
                    body = some_json(tree, rng).decode("utf-8", "replace")
                    where = (body, some)
                    opened.execute(f'update "{table}" set "{name}" = ? where rowid = ?', where)
    elif change == "drop":
        opened.execute(f'delete from "{table}" where rowid >= ?', (some,))
    elif change == "copy":
        names = ", ".join(f'"{name}"' for name in columns[1:])
        insert = f'insert into "{table}" select ?, {names} from "{table}" where rowid = ?'
        opened.execute(insert, (value, some))
    elif change == "table":
        ways = (
            f'drop table "{table}"',
            f'alter table "{table}" rename to "{table}_2"',
            f'alter table "{table}" rename column "{column}" to "c"',
            f'alter table "{table}" add column "c"',
            'create table "c" (a)',
            f'create view "c" as select * from "{table}"',
        )
        opened.execute(rng.choice(ways))
    else:
        pragma = rng.choice(("user_version", "application_id", "journal_mode", "encoding"))
        number = {"journal_mode": "wal", "encoding": "'UTF-16'"}.get(pragma, rng.randrange(2**31))
        opened.execute(f"pragma {pragma} = {number}")


def make_map(office: Path, folder: Path, rng: Rng) -> Command:
    have(office, folder, "served")
    areas = json.loads((office / "areas.geojson").read_bytes())
    words = ["Polygon", "MultiPolygon", "Point", "coordinates", "geometry", [0, 0], [[0, 0]], None]
    words += [181, -90.5, 1e300, "county", {"type": "Polygon", "coordinates": []}]
    put(folder / "areas.geojson", some_json(areas, rng, words))
    name = rng.choice(("county", "county", "county:county", "county:name", "sector"))
    given = ["serve", "served", "--port", "0", "--map", f"{name}=areas.geojson"]
    return Command(ended(given, rng))


def make_small(office: Path, folder: Path, rng: Rng) -> Command:
    """Keys, classes of sizes, shares, damages, columns, groups and labels."""
    have(office, folder, "csv", "plan.toml", "release", "ledger.db")
    (folder / "csv").rename(folder / "data")
    spoilt = (
        *("key.pem", "public.pem", "infuse.key", "sizes.csv", "shares.csv", "damage.csv"),
        *("columns.toml", "data/sectors.csv", "data/goods.csv", "data/ranks.csv"),
    )
    name = rng.choice(spoilt)
    raw = (office / name.replace("data/", "csv/")).read_bytes()
    if name == "columns.toml":
        put(
            folder / name,
            some_toml(tomllib.loads(raw.decode()), rng, ["sex", "F", [1], "grade"]),
        )
    else:
        put(folder / name, (some_csv if name.endswith(".csv") else some_bytes)(raw, rng))
    match name:
        case "key.pem":
            given = ["release", "plan.toml", "--out", "out", "--ledger", "ledger.db"]
            return Command(ended([*given, "--sign", name], rng), ("out",))
        case "public.pem":
            return Command(ended(["verify", "release", "--key", name], rng))
        case "infuse.key":
            given = ["infuse", "data", "--by", "county", "--key", name, "--out", "infused.csv"]
            return Command(ended(given, rng), ("infused.csv",))
        case "sizes.csv":
            return Command(ended(["plan", "plan.toml", "--sizes", name], rng))
        case "shares.csv":
            have(office, folder, "sizes.csv")
            weak = PLAN | {"privacy": PLAN["privacy"] | {"neighbours": "weak", "types": ["sex"]}}
            put(folder / "plan.toml", toml_text(weak).encode())
            given = ["plan", "plan.toml", "--sizes", "sizes.csv", "--shares", name]
            return Command(ended(given, rng))
        case "damage.csv":
            given = ["threshold", "release", "jobs", "--by", "county", "--damage", name]
            return Command(ended([*given, "--per-job", "3.50"], rng))
        case "columns.toml":
            given = ["lodes", "release", "--geocode", "county", "--columns", name]
            return Command(ended([*given, "--out", "out.csv"], rng), ("out.csv",))
    return on_data(office, folder, rng)


def make_study(office: Path, folder: Path, rng: Rng) -> Command:
    have(office, folder, "study")
    path = rng.choice((folder / "study" / "study.json", *(folder / "study" / "parts").iterdir()))
    words = ["workload-1", "auto", "l1_ratio", "all", "0.1", "4", None, 1.5, "value", "epsilon"]
    put(path, some_json(json.loads(path.read_bytes()), rng, words))
    made = ("errors.csv", "errors.parquet", "findings.md", "figures")
    return Command(
        ended(["study", "report", "study"], rng), tuple(f"study/{name}" for name in made)
    )
