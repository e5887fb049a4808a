"""Sound inputs of every kind that eree reads, with values planted in them that nobody may see."""

from __future__ import annotations

import json
from copy import deepcopy
from dataclasses import asdict
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as parquet
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)

from eree.cli import interrupts
from eree.cli.exit_status import run
from eree_study.papers.comparison import Row
from eree_study.papers.study import Study
from mutations import toml_text
from offices import text as plan_text
from small_survey import RECORDS
from town import SCHEMA, csv_bytes

#: In ids of workers, workplaces, records and establishments, in wages and weights, and in addresses
#: of databases.  No other text or number of the inputs holds one of them.
WORKER, WORKPLACE, RECORD, PASSWORD = "zq7SECRETw", "zq7SECRETp", "zq7SECRETr", "zq7PASSWORDx"
WAGES, WEIGHT = "770231456", "5519273.48"
ADDRESS = f"postgresql://clerk:{PASSWORD}@127.0.0.1:1/ledger"
#: The same in the other ways in which numbers are written.
WRITTEN = ("7,702,314,56", "77,023,145,6", "5,519,273", "551927348")
#: Keys that sign and that infuse, in parts long enough to be known again after a change.
KEY = Ed25519PrivateKey.from_private_bytes(Random(1).randbytes(32))
PEM = KEY.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
INFUSES = Random(2).randbytes(32).hex()
SECRET = PEM.split(b"\n")[1].decode()[24:]  # what stands before is the same in all keys
KEYS = tuple(text[i : i + 12] for text in (SECRET, INFUSES) for i in range(0, len(text) - 11, 12))
PLANTED = (WORKER, WORKPLACE, RECORD, PASSWORD, WAGES, WEIGHT, *WRITTEN, *KEYS)

WORKPLACES, WORKERS = 12, 60
TABLES: list[dict[str, Any]] = [
    {"name": "jobs", "by": ["county", "sector"], "epsilon": "2"},
    {"name": "women", "by": ["county"], "where": {"sex": ["F"]}, "epsilon": "1"},
]
PLAN: dict[str, Any] = {
    "data": "data",
    "level": "0.9",
    "privacy": {"neighbours": "strong", "alpha": "0.1", "epsilon": "4", "delta": "0"},
    "table": TABLES,
}
PUBLIC: dict[str, Any] = PLAN | {
    "privacy": PLAN["privacy"] | {"epsilon": "20"},
    "table": [
        *TABLES,
        {"name": "people", "by": ["county", "sex", "grade"], "epsilon": "4"},
        {"name": "sizes", "by": ["workplace_id"], "epsilon": "2"},
    ],
}
SURVEY: dict[str, Any] = {
    "records": {"record": "id", "establishment": "place", "weight": "weight", "occupation": "job"},
    "replicates": {"columns": ["r1", "r2"], "scale": 2},
    "variables": {
        "job": {"codes": ["15-1252", "15-1299", "29-1215", "29-1221", "31-1121"]},
        "education": {
            "label": "Education",
            "codes": ["none", "school", "degree"],
            "labels": {"none": "No education"},
        },
        "licence": {"codes": [0, 1]},
    },
    "impossible": [{"job": ["29-1210"], "education": ["none"]}],
}


def schema(style: str, *, published: bool = False) -> dict[str, Any]:
    """The declaration of the tables, with codes that stand in files of their own."""
    found: dict[str, Any] = deepcopy(SCHEMA)
    for table in ("workplace", "worker", "job"):
        found[table]["file"] = f"{table}.{style}"
    found["reference"]["county"]["file"] = f"county.{style}"
    found["workplace"]["attributes"]["sector"]["labels"] = "sectors.csv"
    found["group"]["goods"]["members"] = "goods.csv"
    found["group"]["rank"] = {"of": "grade", "members": "ranks.csv", "type": "integer"}
    if published:
        found["workplace"]["publish_key"] = True
    return found


def linked(*, published: bool = False) -> dict[str, dict[str, list[Any]]]:
    """The rows of the tables; where ids are published nothing is planted in them."""
    rng = Random(1)
    place, person = ("p", "w") if published else (WORKPLACE, WORKER)
    places = [f"{place}{number}" for number in range(WORKPLACES)]
    people = [f"{person}{number}" for number in range(WORKERS)]
    counties = ["171", "172", "181"]
    at = [counties[number % 3] for number in range(WORKPLACES)]
    return {
        "workplace": {
            "workplace_id": places,
            "state": [county[:2] for county in at],
            "county": at,
            "tract": [f"{county}{number % 2}" for number, county in enumerate(at)],
            "sector": [rng.choice(["11", "23", "44-45"]) for _ in places],
            "wages": [int(f"{WAGES}{number}") for number in range(WORKPLACES)],
        },
        "worker": {
            "worker_id": people,
            "sex": [rng.choice("FM") for _ in people],
            "grade": [rng.choice([1, 2, 3]) for _ in people],
        },
        "job": {"worker_id": people, "workplace_id": [rng.choice(places) for _ in people]},
        "county": {"county": [*counties, "182"], "population": [9, 8, 7, 6]},
    }


def records() -> dict[str, list[Any]]:
    """The records of the survey."""
    count = len(RECORDS["id"])
    planted = {
        "id": [f"{RECORD}{number}" for number in range(count)],
        "place": [f"{WORKPLACE}{name}" for name in RECORDS["place"]],
        "weight": [float(f"{WEIGHT}{number}") for number in range(count)],
    }
    return {**RECORDS, **planted, "r1": planted["weight"], "r2": planted["weight"]}


def write_linked(folder: Path, style: str, *, published: bool = False) -> None:
    """Write tables and their declaration."""
    folder.mkdir()
    (folder / "schema.toml").write_text(toml_text(schema(style, published=published)))
    (folder / "sectors.csv").write_text("value,label\n11,Farms\n23,Building\n44-45,Shops\n")
    (folder / "goods.csv").write_text("value,group\n11,goods\n23,goods\n44-45,services\n")
    (folder / "ranks.csv").write_text("value,group\n1,low\n2,low\n3,high\n")
    for name, columns in linked(published=published).items():
        if style == "csv":
            (folder / f"{name}.csv").write_bytes(csv_bytes(columns))
        else:
            parquet.write_table(pa.table(columns), folder / f"{name}.parquet")


def done(*arguments: object) -> None:
    """A command that must be carried out."""
    assert run([str(argument) for argument in arguments], interrupts.Interrupts()) == 0, arguments


def make_office(home: Path) -> None:
    """Fill a folder with everything that the commands read."""
    write_linked(home / "csv", "csv")
    write_linked(home / "parquet", "parquet")
    write_linked(home / "data", "csv", published=True)
    (home / "plan.toml").write_text(plan_text(PLAN))
    (home / "public.toml").write_text(plan_text(PUBLIC))
    strong = ("--neighbours", "strong", "--alpha", "0.1", "--epsilon", "1000")
    done("ledger", "create", home / "ledger.db", *strong)
    _keys(home)
    paid = ("--ledger", home / "ledger.db", "--sign", home / "key.pem")
    done("release", home / "public.toml", "--out", home / "release", *paid)
    (home / "served.toml").write_text(plan_text(PLAN | {"table": TABLES[:1]}))
    done("release", home / "served.toml", "--out", home / "served", *paid)
    for style in ("csv", "parquet"):
        folder = home / f"survey-{style}"
        folder.mkdir()
        (folder / "survey.toml").write_text(toml_text(SURVEY))
        (folder / "records.csv").write_bytes(csv_bytes(records()))
        if style == "parquet":
            (folder / "records.csv").unlink()
            parquet.write_table(pa.table(records()), folder / "records.parquet")
    bounds = ("--most-weight", "9000000", "--most-records", "4")
    done("cube", "build", home / "survey-csv", "--out", home / "survey.cube", *bounds)
    done("ledger", "create", home / "survey.db", "--neighbours", "record", "--epsilon", "1000")
    paid = ("--ledger", home / "survey.db", "--epsilon", "2")
    done("cube", "protect", home / "survey.cube", "--out", home / "cube", *paid)
    _small_files(home)
    _study(home / "study")


def _keys(home: Path) -> None:
    public = KEY.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    (home / "key.pem").write_bytes(PEM)
    (home / "public.pem").write_bytes(public)
    (home / "infuse.key").write_text(f"{INFUSES}\n")


def _small_files(home: Path) -> None:
    (home / "sizes.csv").write_text("from,to,workplaces,jobs\n1,9,10,30\n10,49,2,40\n50,,1,60\n")
    (home / "shares.csv").write_text("sex,share\nF,0.5\nM,0.5\n")
    (home / "damage.csv").write_text("county,damage\n171,100.50\n172,3\n181,0\n")
    (home / "columns.toml").write_text(
        'C000 = {}\nCS01 = { sex = ["F"] }\nCS02 = { sex = ["M"] }\n'
    )
    ring = [[0, 0], [0, 1], [1, 1], [1, 0], [0, 0]]
    features = [
        {
            "type": "Feature",
            "properties": {"county": code, "name": f"County {code}"},
            "geometry": {
                "type": "Polygon",
                "coordinates": [[[x + place, y] for x, y in ring]],
            },
        }
        for place, code in enumerate(("171", "172", "181"))
    ]
    features[0]["geometry"] = {"type": "MultiPolygon", "coordinates": [[ring]]}
    areas = {"type": "FeatureCollection", "features": features}
    (home / "areas.geojson").write_text(json.dumps(areas))
    (home / "site.toml").write_text('name = "Office"\nlanguages = ["es", "en"]\n')


def _study(folder: Path) -> None:
    """A study with one part, of figures that nobody has measured: only its reading is tried."""
    (folder / "parts").mkdir(parents=True)
    settings = Study(folder, 2_000, 1, 1).settings()
    (folder / "study.json").write_text(json.dumps(settings))
    rows = [
        asdict(Row("paper", "workload-1", name, "0.1", "1", 0.0, "all", measure, 1.5, 0.1, 1))
        for name in ("auto", "log-laplace")
        for measure in ("l1_ratio", "l1")
    ]
    (folder / "parts" / "workload-1_0.1_1.json").write_text(json.dumps(rows))
