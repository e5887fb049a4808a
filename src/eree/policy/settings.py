"""The settings that `schema.toml` may hold, one model for each kind of table in it.

Reading never stops at the first mistake: each is reported with its place and in our own words, and
what was understood of the rest is kept, so that the data behind it can still be checked.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from datetime import date, time
from pathlib import Path
from typing import Annotated, Any, ClassVar, TypeVar

from pydantic import BaseModel, ConfigDict, Field, StrictBool, StrictInt, StrictStr, ValidationError

from eree.errors import Fault, Unreadable, hint
from eree.policy.schema import DATA_SET, DatabaseTable, Dialect, Encoding, Kind

SCHEMA_FILE = "schema.toml"

NO_CONTROLS = r"^[^\x00-\x1f\x7f]+$"
NO_QUOTES = r'^[^"`\\\x00-\x1f\x7f]+$'

#: The description of a type is what a reader sees who wrote something else.
Text = Annotated[
    StrictStr, Field(min_length=1, description="must be a text in quotes, and not empty")
]
FileName = Annotated[
    StrictStr,
    Field(pattern=NO_CONTROLS, description="must be the name of a file or folder, in quotes"),
]
ColumnName = Annotated[
    StrictStr,
    Field(
        pattern=NO_QUOTES,
        description="must be the name of a column, in quotes; the name cannot hold quotes,"
        " backslashes or control characters",
    ),
]
ColumnNames = Annotated[
    list[ColumnName], Field(description="must be a list of column names, each in quotes")
]
Codes = list[StrictStr | StrictInt]
Labels = Annotated[
    dict[StrictStr, StrictStr] | FileName,
    Field(description='must be a table such as { F = "Female" }, or the name of a CSV file'),
]


class Settings(BaseModel):
    """A table of the TOML file; an optional setting that is left out is empty."""

    model_config = ConfigDict(frozen=True, defer_build=True)
    required: ClassVar[tuple[str, ...]] = ()

    @classmethod
    def complaints(cls, given: Mapping[str, Any]) -> list[tuple[str, str]]:
        """Settings that are required and not given, or that do not go together."""
        return [(name, "is required and missing") for name in cls.required if name not in given]


class AttributeSettings(Settings):
    """An attribute of workplaces, workers or jobs."""

    label: Text = ""
    type: Annotated[Kind | None, Field(description='must be "string" or "integer"')] = None
    values: Annotated[
        Codes | FileName | None,
        Field(description="must be a list of texts or of integers, or the name of a CSV file"),
    ] = None
    ranges: Annotated[
        dict[
            Annotated[StrictStr, Field(pattern=r"^[^'\"`\\$\x00-\x1f\x7f]+$")],
            StrictInt | StrictStr | Annotated[date, Field(strict=True)],
        ]
        | None,
        Field(
            description="must give each value the least number or date that it has, such as"
            ' { low = 0, high = "1250.01" }; names cannot hold quotes, backslashes, $ or control'
            " characters, and decimals stand in quotes"
        ),
    ] = None
    years: Annotated[
        list[Annotated[StrictInt, Field(ge=1, le=9999)]] | None,
        Field(min_length=2, max_length=2, description="must be the first and the last year"),
    ] = None
    labels: Labels = {}
    confidential: Annotated[StrictBool, Field(description="must be true or false")] = False
    missing: Annotated[
        Annotated[StrictStr, Field(pattern=r"^[^'\"`\\\x00-\x1f\x7f]+$")] | StrictInt | None,
        Field(
            description="must be a value, such as 'unknown'; it cannot hold quotes, backslashes or"
            " control characters"
        ),
    ] = None


Attributes = Annotated[
    dict[StrictStr, Any], Field(description="must be a table with one entry per attribute")
]


TableName = Annotated[
    StrictStr, Field(pattern=r'^[^"`\\\x00-\x1f\x7f.]+(\.[^"`\\\x00-\x1f\x7f.]+)?$')
]


class DuckSettings(Settings):
    """A table of a DuckDB file."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    duckdb: FileName
    table: TableName


class PostgresSettings(Settings):
    """A table of PostgreSQL, whose address an environment variable holds."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    postgres: Annotated[StrictStr, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]
    table: TableName


class FileSettings(Settings):
    """Where a table lies, and how its files are written if they are CSV."""

    file: FileName = ""
    source: Annotated[
        DuckSettings | PostgresSettings | None,
        Field(
            description='must be such as { duckdb = "office.duckdb", table = "jobs" }, or'
            ' { postgres = "EREE_DATA", table = "jobs" } with the name of the environment variable'
            " that holds the address, never the address itself"
        ),
    ] = None
    separator: Annotated[
        StrictStr,
        Field(pattern=r"^[,;|\t]$", description=r"must be ',', ';', '|' or a tab, as \"\\t\""),
    ] = ""
    encoding: Annotated[Encoding, Field(description="must be 'utf-8' or 'latin-1'")] = "utf-8"
    partitions: ColumnNames = []

    @classmethod
    def complaints(cls, given: Mapping[str, Any]) -> list[tuple[str, str]]:
        """The same; a table of a database has no file, and no way of writing CSV."""
        found = super().complaints(given)
        if "source" not in given:
            return found
        both = [name for name in ("file", "separator", "encoding", "partitions") if name in given]
        rule = "is of files, and source of databases; leave one out"
        return [(n, why) for n, why in found if n != "file"] + [(name, rule) for name in both]

    @property
    def database(self) -> DatabaseTable | None:
        """The table of a database, if it is one."""
        match self.source:
            case DuckSettings(duckdb=file, table=name):
                return DatabaseTable(name, file=file)
            case PostgresSettings(postgres=address, table=name):
                return DatabaseTable(name, address=address)
        return None

    @property
    def place(self) -> str:
        """What reports call the file, or the table of a database."""
        return self.file or str(self.database or "")

    @property
    def dialect(self) -> Dialect:
        """How its CSV files are written."""
        return Dialect(self.separator, self.encoding, tuple(self.partitions))


class KeyedSettings(FileSettings):
    """The workplace or the worker table."""

    required = ("file", "key")
    key: ColumnName = ""
    publish_key: Annotated[StrictBool, Field(description="must be true or false")] = False
    ignore: ColumnNames = []
    attributes: Attributes = {}


class PrimarySettings(Settings):
    """The rule that chooses one job of each worker."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    greatest: ColumnName


class JobSettings(FileSettings):
    """The job table."""

    required = ("file", "worker", "workplace")
    worker: ColumnName = ""
    workplace: ColumnName = ""
    primary: Annotated[
        ColumnName | PrimarySettings,
        Field(
            description="must be the name of a column, in quotes, or a rule such as"
            ' { greatest = "earnings" }'
        ),
    ] = ""
    most_per_worker: Annotated[
        StrictInt, Field(ge=1, le=1_000, description="must be an integer from 1 to 1,000")
    ] = 1
    ignore: ColumnNames = []
    attributes: Attributes = {}


class ProvenanceSettings(Settings):
    """Which released sizes a group of workplaces was made of."""

    required = ("release", "digest", "table", "cuts")
    release: Annotated[
        StrictStr,
        Field(pattern="^[0-9a-f]{32}$", description="must be the name of a release: 32 digits"),
    ] = ""
    digest: Annotated[
        StrictStr,
        Field(pattern="^[0-9a-f]{64}$", description="must be the digest of a release: 64 digits"),
    ] = ""
    table: Text = ""
    cuts: Annotated[
        list[Annotated[StrictInt, Field(ge=1)]],
        Field(min_length=1, description="must be a list of integers of 1 or more"),
    ] = []


class GroupSettings(Settings):
    """A coarser attribute, made of the values of another."""

    required = ("of",)
    of: Text = ""
    prefix: Annotated[
        StrictInt, Field(ge=1, le=1_000, description="must be an integer of characters, 1 or more")
    ] = 0
    members: Annotated[
        dict[StrictStr, Codes] | FileName,
        Field(
            description="must give each group its list of values, such as"
            ' { goods = ["11"] }, or be the name of a CSV file'
        ),
    ] = {}
    type: Annotated[
        Kind | None, Field(description='must be "string" or "integer", the type of the values')
    ] = None
    label: Text = ""
    labels: Labels = {}
    provenance: Annotated[
        dict[StrictStr, Any] | None,
        Field(description="must be a table with release, digest, table and cuts"),
    ] = None


class ReferenceSettings(FileSettings):
    """A public table about the values of a workplace attribute."""

    required = ("file",)
    key: ColumnName = ""


_S = TypeVar("_S", bound=Settings)


def read_toml(path: Path, *, missing: str) -> dict[str, Any]:
    """What a TOML file holds; raises `Unreadable` where it cannot be read, `missing` if not there.

    A file of settings is public, so what is wrong with it is said in the parser's words.
    """
    try:
        return tomllib.loads(path.read_bytes().decode("utf-8-sig"))
    except FileNotFoundError:
        raise Unreadable(missing) from None
    except UnicodeDecodeError:
        raise Unreadable(f"{path} is not UTF-8 text; save it as UTF-8") from None
    except tomllib.TOMLDecodeError as error:
        raise Unreadable(f"{path} is not valid TOML: {error}") from None
    except ValueError:  # Python reads no integer of more than some thousand digits
        raise Unreadable(f"{path} holds a number that is too long; shorten it") from None
    except RecursionError:
        raise Unreadable(f"{path} is nested too deeply; write it with fewer levels") from None
    except OSError as error:
        raise Unreadable(f"{path} cannot be read: {error.strerror}") from None


def python_values(given: Any) -> Any:
    """Settings as a file would have them: arrays and numbers of NumPy and pandas as plain ones."""
    if isinstance(given, Mapping):
        return {name: python_values(value) for name, value in given.items()}
    plain = given.tolist() if hasattr(given, "tolist") else given
    return [python_values(value) for value in plain] if isinstance(plain, (list, tuple)) else plain


def _foreign(value: object) -> str:
    """The end of a fault about a value that no file of settings needs: what Python calls it."""
    known = isinstance(value, (str, int, list, dict, date, time))
    return "" if known else f"; not what Python calls {type(value).__name__}"


class FileFaults:
    """The faults of a file of settings, each reported once."""

    def __init__(self, file: str = SCHEMA_FILE) -> None:
        self.file = file
        self.found: list[Fault] = []

    def add(self, place: str, rule: str) -> None:
        """Note that a place of the file breaks a rule."""
        shown = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in place)
        fault = Fault(self.file, self.file, shown, rule)
        if fault not in self.found:
            self.found.append(fault)

    def read(self, model: type[_S], raw: Any, place: str) -> _S:
        """What can be understood of a table of settings; a setting that cannot is left empty."""
        if not isinstance(raw, Mapping):
            self.add(place, "must be a table of settings")
            return model()
        self.unknown(raw, model.model_fields, place)
        given = {name: raw[name] for name in model.model_fields if name in raw}
        inside = f"{place}." if place else ""
        for name, rule in model.complaints(given):
            self.add(f"{inside}{name}", rule)
        try:
            return model.model_validate(given)
        except ValidationError as error:
            wrong: dict[str, str] = {}
            for detail in error.errors():
                name = str(detail["loc"][0])
                wrong[name] = wrong.get(name) or _foreign(detail["input"])
        for name, found in sorted(wrong.items()):
            rule = model.model_fields[name].description or "is wrong"
            self.add(f"{inside}{name}", f"{rule}{found}")
        return model.model_validate({n: value for n, value in given.items() if n not in wrong})

    def data_set(self, raw: Mapping[str, Any]) -> str:
        """How the data are called, which a ledger is bound to."""
        name = raw.get("data_set", DATA_SET)
        if isinstance(name, str) and name.strip() and name.isprintable() and len(name) <= 1_000:
            return name
        self.add("data_set", "must be a text in quotes, printable and not empty")
        return DATA_SET

    def unknown(self, raw: Mapping[str, Any], known: Mapping[str, Any], place: str = "") -> None:
        """Report every setting that is not known, with the one that was perhaps meant."""
        for name in raw:
            if name not in known:
                rule = f"is not a setting that eree knows{hint(name, known)}"
                self.add(f"{place}.{name}" if place else name, rule)
