"""eree: employment tables from linked employer-employee data, under a provable privacy guarantee.

What stands here is the library's whole public face.
"""

from eree.cells import Cells
from eree.data.synthetic import synthesize
from eree.data.tables import Tables, check, load
from eree.data.tabulate import stream, tabulate, write_cells
from eree.errors import EngineFailure, Fault, Faulty, Refusal, Unreadable
from eree.policy.declarations import read_schema
from eree.policy.schema import Attribute, Schema
from eree.workload import DropFrom, Marginal, ScaleTo

__version__ = "0.1.0"

__all__ = [
    "Attribute",
    "Cells",
    "DropFrom",
    "EngineFailure",
    "Fault",
    "Faulty",
    "Marginal",
    "Refusal",
    "ScaleTo",
    "Schema",
    "Tables",
    "Unreadable",
    "check",
    "load",
    "read_schema",
    "stream",
    "synthesize",
    "tabulate",
    "write_cells",
]
