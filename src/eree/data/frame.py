"""The public part of linked tables: the schema, and which workplaces there are.

A plan is made from this alone.  Of the confidential tables nothing is opened.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from eree.data.columns import resolved
from eree.data.databases import Databases
from eree.data.engine import open_engine
from eree.data.sources import Source
from eree.data.tables import Tables
from eree.data.tabulation import Tabulation
from eree.errors import Faulty
from eree.policy.declarations import read_schema
from eree.policy.schema import Schema
from eree.workload import Marginal


@dataclass(frozen=True)
class Frame:
    """The workplaces of a folder of linked tables, and the schema of all."""

    folder: Path
    schema: Schema
    workplaces: Source

    @classmethod
    def read(cls, folder: str | os.PathLike[str]) -> Frame:
        """The schema of a folder, types settled by the workplace table; raises `Faulty`."""
        home = Path(folder)
        schema = read_schema(home)
        with Databases(schema, home) as databases:
            source, faults = databases.look_at("workplace")
        if source is None or faults:
            raise Faulty(faults)
        return cls(home, resolved(schema, {"workplace": source}), source)

    @classmethod
    def of(cls, tables: Tables) -> Frame:
        """The public part of tables that were loaded."""
        return cls(tables.folder, tables.schema, tables.sources["workplace"])

    def cells(self, marginals: Sequence[Marginal]) -> list[int]:
        """How many rows the table of each marginal has: it depends on public things alone."""
        found = self._asked(marginals, Tabulation.public_sql)
        return [
            marginal.rows(self.schema, int(counted.column(0)[0].as_py()))
            for marginal, counted in zip(marginals, found, strict=True)
        ]

    def workplaces_by(self, marginal: Marginal) -> pa.Table:
        """How many workplaces every workplace cell has: its attributes, and `_workplaces`."""
        return self._asked([marginal], Tabulation.public_counts_sql)[0]

    def _asked(
        self, marginals: Sequence[Marginal], text: Callable[[Tabulation], str]
    ) -> list[pa.Table]:
        """The answers to a question about the workplaces that each marginal keeps, asked once."""
        answers: dict[str, pa.Table] = {}
        with closing(open_engine()) as engine:
            engine.load("workplace_file", self.workplaces)
            for marginal in marginals:
                if repr(marginal) in answers:
                    continue
                tabulation = Tabulation(self.schema, {"workplace": self.workplaces}, marginal)
                for name, values in tabulation.public_side_tables().items():
                    engine.load(name, values)
                answers[repr(marginal)] = engine.query(text(tabulation)).read_all()
        return [answers[repr(marginal)] for marginal in marginals]
