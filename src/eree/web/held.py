"""A release of which every file is in memory, as it was verified."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from io import BytesIO
from pathlib import Path
from typing import Any, Self
from weakref import WeakValueDictionary

import pyarrow as pa
import pyarrow.parquet as parquet

from eree.errors import Refusal
from eree.policy.schema import Value
from eree.release.contents import SCALED_TO
from eree.release.release import Release
from eree.web.dataset import Variable
from eree.web.hierarchy import levels_of

#: What is counted in a table of jobs; its other numbers follow from these.
_NUMBERS = ("noisy", "workplaces", SCALED_TO)


class Held(Release):
    """A release whose tables are held as their files have them, which is little.

    Other tables may bound figures of one at any time: they are read from memory then.
    """

    @classmethod
    def of(cls, release: Release) -> Self:
        """Read all tables of a release, and what says where their areas lie."""
        found = cls(release.folder, release.record, release.public_sizes)
        content = found.__dict__["_content"] = release.content
        files: dict[str, bytes] = {}
        for name in release.tables:
            assert Path(name).name == name  # it was verified
            files[name] = (release.folder / "tables" / f"{name}.parquet").read_bytes()
            known = release.about(name)["files"][f"tables/{name}.parquet"]
            if hashlib.sha256(files[name]).hexdigest() != known:
                raise Refusal(f"{release.folder} changed while it was read; try again")
        if found.areas and release.content != content:
            raise Refusal(f"{release.folder} changed while it was read; try again")
        found.__dict__["_files"] = files
        found.__dict__["_alive"] = WeakValueDictionary[str, Any]()
        found.__dict__["_variables"] = {}
        return found

    @property
    def content(self) -> str | None:
        """The digest of what was read."""
        found: str | None = self.__dict__["_content"]
        return found

    def variable(self, name: str, codes: tuple[Value, ...]) -> Variable:
        """An attribute with these codes and the levels above, which several tables may have."""
        known: dict[object, Variable] = self.__dict__["_variables"]
        if (name, codes) not in known:
            attributes = self.schema.attributes
            titles = {a.name: a.label or a.name for a in attributes.values()}
            known[name, codes] = Variable(
                name,
                titles[name],
                tuple(map(str, codes)),
                tuple(map(attributes[name].describe, codes)),
                levels_of(self, name, codes),
                titles,
            )
        return known[name, codes]

    def table(self, name: str) -> pa.Table:
        """The public rows of a table."""
        found = self.__dict__["_alive"].get(name)
        if found is None:
            found = parquet.ParquetFile(BytesIO(self.__dict__["_files"][name])).read()
            self.__dict__["_alive"][name] = found
        assert isinstance(found, pa.Table)
        return found

    def coded(self, name: str, by: Iterable[str]) -> pa.Table:
        """The rows of a table of jobs: attributes as codes, and what was counted."""
        own = list(by)
        file = parquet.ParquetFile(BytesIO(self.__dict__["_files"][name]), read_dictionary=own)
        numbers = [n for n in _NUMBERS if n in file.schema_arrow.names]
        return file.read([*own, *numbers]).unify_dictionaries()
