"""Command lines that a fuzz makes of all commands and options that eree knows."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import click

from eree.cli.exit_status import cli
from fuzz_kinds import Command, have
from fuzz_office import ADDRESS
from mutations import ODD_TEXTS, Rng

#: Sound lines of every command, over the files of the office.
LINES = (
    "check data",
    "check data --threads 2 --memory-limit 1GB --rows new.csv",
    "schema init data/workplace.parquet data/worker.parquet data/job.parquet --out new.toml",
    "tabulate data --by county,sex --where sector=11,23 --out new.csv",
    "tabulate data --drop-from 5 --out new.parquet",
    "infuse data --by county --key infuse.key --ramp 0.05,0.15 --out new.csv",
    "plan plan.toml --sizes sizes.csv --memo new.md --ledger ledger.db",
    "plan plan.toml --sizes sizes.csv --shares shares.csv",
    "plan plan.toml --sizes sizes.csv --explore new.png",
    "release plan.toml --out new --ledger ledger.db --sign key.pem",
    "rehearse plan.toml --workplaces 50 --seed 3 --out new",
    "verify release --ledger ledger.db --key public.pem",
    "verify cube",
    "record release --out new --address https://host/tables",
    "rank release jobs --by county --where sector=11 --level 0.95 --top 2 --out new.csv",
    "threshold release jobs --by county --damage damage.csv --per-job 3.50 --level 0.9",
    "lodes release --geocode county --table people --columns columns.toml --out new.csv",
    "lodes release --geocode state --where county=171 --out new.csv --crosswalk walk.csv.gz",
    "lodes release --geocode county --table people --year 2026 --folder new",
    "lodes release --geocode county --numbers biased-counts --out new.csv --intervals ends.csv",
    "shrink release people --out new.csv",
    "estimate release",
    "compare release people --first sex=F --second sex=M",
    "strata release sizes --cut 3 --cut 9 --out new.csv",
    "ledger create new.db --neighbours weak --alpha 0.1 --types sex --epsilon 8 --delta 1e-9",
    "ledger show ledger.db",
    "ledger verify ledger.db --against release",
    "ledger close ledger.db 2 --release release",
    "ledger heads ledger.db heads",
    "certify smooth-pareto --alpha 0.1 --epsilon 2",
    "certify truncated-laplace --epsilon 1 --set theta=50",
    "cube check survey-csv",
    "cube build survey-csv --out new.cube --variables job,licence --most-weight 9 --most-records 2",
    "cube plan survey.cube --epsilon 2 --control education --calibration rake --cycles 3",
    "cube plan survey.cube --epsilon 7 --mode as-published --cap 1 --keep-empty 0.5",
    "cube protect survey.cube --out new --ledger survey.db --epsilon 2 --unit record",
    "cube show cube --by job,licence --where education=none --level job=major --out new.csv",
    "cube assess survey.cube cube --out new --survey survey-csv --most-tables 2",
    "serve release cube --port 0 --map county=areas.geojson --site site.toml",
    "serve release --port 0 --metrics --log json --address http://a.example.org",
    "serve release --port 0 --workers 2 --watch 60",
    "study report study",
    "synth new --seed 3 --workplaces 40",
    "cube synth new --seed 3 --replicates 4",
    "demo --seed 3",
    "attack --seed 3 --alpha 0.1 --epsilon 1 --targets 3 --repeats 1",
    "study run --trials 1 --seed 3 --only workload-1",
    "study wac --trials 1 --seed 3 --epsilon 2,4",
    "study others --trials 1 --seed 3 --epsilon 2",
    "study tables",
    "cube study --runs 3 --seed 3",
    "completion bash",
)
#: What ends lines whose commands would else compute for long: a folder that is taken, or a size
#: that is small or refused.
ENDINGS = {
    ("demo",): ("--out taken",),
    ("attack",): ("--out taken",),
    ("study", "run"): ("--out taken",),
    ("study", "wac"): ("--out taken",),
    ("study", "others"): ("--out taken",),
    ("cube", "study"): ("--out taken",),
    ("synth",): ("--jobs 1000", "--jobs 0", "--jobs -1", f"--jobs {'9' * 30}"),
    ("cube", "synth"): ("--establishments 10", f"--establishments {'9' * 30}"),
}
#: Not tried: they compute certificates for long, wait for a name server, or start other processes.
LEFT_OUT = ("--all", "--fresh", "--host", "--engine")
PIPE = "fifo"
PATHS = (
    *(
        "data",
        "release",
        "plan.toml",
        "ledger.db",
        "fifo",
        "loop",
        "nowhere",
        "closed",
        "/dev/null",
    ),
    *("/dev/zero/x", "a" * 300, "x/" * 3000, "data/schema.toml", "new.db", "survey.cube", "taken"),
    *(".", "..", "", "/", "cube", "key.pem", "\udcff\udcfe", "new\nline", "dangling", "study"),
)
ADDRESSES = (
    ADDRESS,
    ADDRESS.replace(":1/", ":x/"),
    ADDRESS.replace("@127.0.0.1:1", "@[::1"),
    ADDRESS.replace("/ledger", "/ledger?connect_timeout=nan"),
    ADDRESS.replace("postgresql", "postgres"),
    ADDRESS.replace("postgresql", "mysql"),
    ADDRESS.replace("postgresql://", "postgresql+psycopg://"),
    ADDRESS.replace("@127.0.0.1:1/ledger", "@"),
    f"postgresql://127.0.0.1:1/ledger?password={ADDRESS.split(':')[2].split('@')[0]}",
)
NUMBERS = (
    "0",
    "1",
    "-1",
    "2",
    "1e999",
    "nan",
    "inf",
    "1/3",
    "0.5",
    "9" * 30,
    "٣",
    "1_0",
    "0x1",
    "",
)


def commands(*path: str) -> Iterator[tuple[str, ...]]:
    """All commands that are no groups, by their names."""
    found, context = command(path)
    if isinstance(found, click.Group):
        for name in found.list_commands(context):
            yield from commands(*path, name)
    else:
        yield path


def command(path: tuple[str, ...]) -> tuple[click.Command, click.Context]:
    """A command or group, with its context."""
    found: click.Command | None = cli
    context = click.Context(cli)
    for name in path:
        assert isinstance(found, click.Group)
        found = found.get_command(context, name)
        assert found is not None
        context = click.Context(found, parent=context)
    assert found is not None
    return found, context


def options(path: tuple[str, ...]) -> list[click.Option]:
    """The options of a command."""
    known = [one for one in command(path)[0].params if isinstance(one, click.Option)]
    return [one for one in known if one.opts[0] not in LEFT_OUT]


def path_of(words: list[str]) -> tuple[str, ...]:
    """The names that a sound line begins with."""
    known = set(commands())
    return tuple(words[:1]) if tuple(words[:1]) in known else tuple(words[:2])


def odd_word(rng: Rng) -> str:
    """A word that means nothing here, or something else."""
    kind = rng.choice((ODD_TEXTS, PATHS, PATHS, NUMBERS, ADDRESSES))
    return rng.choice(kind).replace("\0", "\x01").replace("\ud83d\ude00", "\udcf0")


def make_arguments(office: Path, folder: Path, rng: Rng) -> Command:
    """A sound line with words left out, doubled, replaced and added."""
    names = [path.name for path in office.iterdir() if not path.name.endswith(".toml")]
    have(office, folder, *names, "plan.toml", "columns.toml")
    os.mkfifo(folder / PIPE)
    (folder / "loop").symlink_to("loop")
    (folder / "dangling").symlink_to("nowhere/else")
    (folder / "taken").mkdir()
    (folder / "taken" / "file").touch()
    (folder / "closed").touch(mode=0o000)
    words = rng.choice(LINES).split()
    path = path_of(words)
    start = len(path)
    for _ in range(rng.choice((1, 1, 2, 3))):
        place = rng.randint(start, len(words))
        match rng.choice(("replace", "replace", "replace", "option", "option", "add", "drop")):
            case "replace":
                words[place : place + 1] = [odd_word(rng)]
            case "add":
                words.insert(place, odd_word(rng))
            case "drop":
                del words[place : place + 1]
            case "option":
                for option in rng.sample(options(path), min(1, len(options(path)))):
                    words += [option.opts[0], *([] if option.is_flag else [odd_word(rng)])]
    ends = ENDINGS.get(path, ())
    words = [word for word in words if not word.startswith("--al") or word == "--alpha"]
    words += rng.choice(ends).split() if ends else []
    made = ("new", "new.csv", "new.parquet", "new.md", "new.db", "new.cube")
    return Command(words, confidential=(*made, "*"))
