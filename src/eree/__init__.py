"""eree: employment tables from linked employer-employee data, under a provable privacy guarantee.

What stands here is the library's whole public face.  Each name is imported when it is first used,
so that `import eree` and the command line start at once.
"""

TYPE_CHECKING = False  # typing's own costs an import, and Ctrl-C is not heard before it

if TYPE_CHECKING:
    from eree.cells import Cells
    from eree.data.synthetic import synthesize
    from eree.data.tables import Tables, check, load
    from eree.data.tabulate import new_file, stream, tabulate, write_cells
    from eree.errors import EngineFailure, Fault, Faulty, Refusal, Unreadable
    from eree.mechanisms.certificate import Certificate
    from eree.mechanisms.grid import certify_grid
    from eree.mechanisms.mechanism import ExpectedError, Mechanism
    from eree.mechanisms.registry import MECHANISMS, mechanism, parameters_from_text
    from eree.noise.coins import Coins, SeededCoins
    from eree.policy.declarations import read_schema
    from eree.policy.guarantee import Guarantee
    from eree.policy.neighbours import EDGE, NODE, Strong, Weak
    from eree.policy.schema import Attribute, Schema
    from eree.study.requirements import requirements_table
    from eree.workload import DropFrom, Marginal, ScaleTo

__version__ = "0.1.0"

_HOMES = {
    "eree.cells": ("Cells",),
    "eree.data.synthetic": ("synthesize",),
    "eree.data.tables": ("Tables", "check", "load"),
    "eree.data.tabulate": ("new_file", "stream", "tabulate", "write_cells"),
    "eree.errors": ("EngineFailure", "Fault", "Faulty", "Refusal", "Unreadable"),
    "eree.mechanisms.certificate": ("Certificate",),
    "eree.mechanisms.mechanism": ("ExpectedError", "Mechanism"),
    "eree.mechanisms.grid": ("certify_grid",),
    "eree.mechanisms.registry": ("MECHANISMS", "mechanism", "parameters_from_text"),
    "eree.noise.coins": ("Coins", "SeededCoins"),
    "eree.policy.declarations": ("read_schema",),
    "eree.policy.guarantee": ("Guarantee",),
    "eree.policy.neighbours": ("EDGE", "NODE", "Strong", "Weak"),
    "eree.policy.schema": ("Attribute", "Schema"),
    "eree.study.requirements": ("requirements_table",),
    "eree.workload": ("DropFrom", "Marginal", "ScaleTo"),
}

__all__ = [
    "EDGE",
    "MECHANISMS",
    "NODE",
    "Attribute",
    "Cells",
    "Certificate",
    "Coins",
    "DropFrom",
    "EngineFailure",
    "ExpectedError",
    "Fault",
    "Faulty",
    "Guarantee",
    "Marginal",
    "Mechanism",
    "Refusal",
    "ScaleTo",
    "Schema",
    "SeededCoins",
    "Strong",
    "Tables",
    "Unreadable",
    "Weak",
    "certify_grid",
    "check",
    "load",
    "mechanism",
    "new_file",
    "parameters_from_text",
    "read_schema",
    "requirements_table",
    "stream",
    "synthesize",
    "tabulate",
    "write_cells",
]


def __getattr__(name: str) -> object:
    from importlib import import_module

    for home, names in _HOMES.items():
        if name in names:
            value = globals()[name] = getattr(import_module(home), name)
            return value
    raise AttributeError(f"module 'eree' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
