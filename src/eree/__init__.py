"""eree: employment tables from linked employer-employee data, under a provable privacy guarantee.

What stands here is the library's whole public face.  Each name is imported when it is first used,
so that `import eree` and the command line start at once.
"""

TYPE_CHECKING = False  # typing's own costs an import, and Ctrl-C is not heard before it

if TYPE_CHECKING:
    from eree.budget.ledger import Ledger, Reservation
    from eree.cells import Cell, Cells, Group
    from eree.data.tables import Tables, check, load
    from eree.data.tabulate import new_file, stream, tabulate, write_cells
    from eree.errors import EngineFailure, Fault, Faulty, Refusal, Unreadable
    from eree.mechanisms.certificate import Certificate
    from eree.mechanisms.grid import certify_grid
    from eree.mechanisms.mechanism import ExpectedError, Mechanism
    from eree.mechanisms.registry import (
        MECHANISMS,
        VECTOR_MECHANISMS,
        mechanism,
        parameters_from_text,
        register,
    )
    from eree.policy.declarations import read_schema
    from eree.policy.guarantee import Guarantee
    from eree.policy.neighbours import EDGE, ESTABLISHMENT, NODE, RECORD, Strong, Weak
    from eree.policy.protected import Protected
    from eree.policy.schema import Attribute, Schema
    from eree.random.source import Random, SeededRandom
    from eree.release.classes import SizeClasses, size_classes
    from eree.release.listing import Listing, new_csv
    from eree.release.lodes import LODES_COLUMNS, LodesTable, lodes
    from eree.release.memo import memo
    from eree.release.outlook import outlook
    from eree.release.plan import Plan
    from eree.release.prediction import Prediction
    from eree.release.publish import publish
    from eree.release.rank import Ranking, rank
    from eree.release.recheck import Verification
    from eree.release.release import Release
    from eree.release.shrink import Shrunk, shrink
    from eree.release.signature import Signer, public_key_of
    from eree.release.sizes import WorkerShares, WorkplaceSizes
    from eree.release.sums import AreaTotals, area_totals
    from eree.release.threshold import Decisions, threshold
    from eree.survey.assess.assessment import Assessment, assess_cube
    from eree.survey.assess.report import assess_cube_file, write_assessment
    from eree.survey.assess.rules import Thresholds
    from eree.survey.bounds import Shares
    from eree.survey.calibrate.controls import Control
    from eree.survey.cube import Cube, CubeOutline, build_cube, build_cube_file
    from eree.survey.estimates import Estimates
    from eree.survey.microdata import Survey, check_survey, read_survey
    from eree.survey.modes import NoisyTotal
    from eree.survey.plan import CubePlan, plan_cube
    from eree.survey.protect import protect_cube
    from eree.survey.protected import ProtectedCube
    from eree.survey.query import Query
    from eree.survey.shape import Impossible, Shape, Variable
    from eree.survey.tables import Tabulator
    from eree.survey.verify import verify
    from eree.workload import DropFrom, Marginal, ScaleEach, ScaleTo

__version__ = "0.1.0"

_HOMES = {
    "eree.budget.ledger": ("Ledger", "Reservation"),
    "eree.cells": ("Cell", "Cells", "Group"),
    "eree.data.tables": ("Tables", "check", "load"),
    "eree.data.tabulate": ("new_file", "stream", "tabulate", "write_cells"),
    "eree.errors": ("EngineFailure", "Fault", "Faulty", "Refusal", "Unreadable"),
    "eree.mechanisms.certificate": ("Certificate",),
    "eree.mechanisms.mechanism": ("ExpectedError", "Mechanism"),
    "eree.mechanisms.grid": ("certify_grid",),
    "eree.mechanisms.registry": (
        "MECHANISMS",
        "VECTOR_MECHANISMS",
        "mechanism",
        "parameters_from_text",
        "register",
    ),
    "eree.random.source": ("Random", "SeededRandom"),
    "eree.policy.declarations": ("read_schema",),
    "eree.policy.guarantee": ("Guarantee",),
    "eree.policy.neighbours": ("EDGE", "ESTABLISHMENT", "NODE", "RECORD", "Strong", "Weak"),
    "eree.policy.protected": ("Protected",),
    "eree.policy.schema": ("Attribute", "Schema"),
    "eree.release.classes": ("SizeClasses", "size_classes"),
    "eree.release.listing": ("Listing", "new_csv"),
    "eree.release.lodes": ("LODES_COLUMNS", "LodesTable", "lodes"),
    "eree.release.memo": ("memo",),
    "eree.release.outlook": ("outlook",),
    "eree.release.plan": ("Plan",),
    "eree.release.publish": ("publish",),
    "eree.release.rank": ("Ranking", "rank"),
    "eree.release.recheck": ("Verification",),
    "eree.release.release": ("Release",),
    "eree.release.shrink": ("Shrunk", "shrink"),
    "eree.release.signature": ("Signer", "public_key_of"),
    "eree.release.prediction": ("Prediction",),
    "eree.release.sizes": ("WorkerShares", "WorkplaceSizes"),
    "eree.release.sums": ("AreaTotals", "area_totals"),
    "eree.release.threshold": ("Decisions", "threshold"),
    "eree.survey.assess.assessment": ("Assessment", "assess_cube"),
    "eree.survey.assess.report": ("assess_cube_file", "write_assessment"),
    "eree.survey.assess.rules": ("Thresholds",),
    "eree.survey.bounds": ("Shares",),
    "eree.survey.calibrate.controls": ("Control",),
    "eree.survey.estimates": ("Estimates",),
    "eree.survey.modes": ("NoisyTotal",),
    "eree.survey.plan": ("CubePlan", "plan_cube"),
    "eree.survey.protect": ("protect_cube",),
    "eree.survey.protected": ("ProtectedCube",),
    "eree.survey.shape": ("Impossible", "Shape", "Variable"),
    "eree.survey.verify": ("verify",),
    "eree.survey.cube": ("Cube", "CubeOutline", "build_cube", "build_cube_file"),
    "eree.survey.microdata": ("Survey", "check_survey", "read_survey"),
    "eree.survey.query": ("Query",),
    "eree.survey.tables": ("Tabulator",),
    "eree.workload": ("DropFrom", "Marginal", "ScaleEach", "ScaleTo"),
}

__all__ = [
    "EDGE",
    "ESTABLISHMENT",
    "LODES_COLUMNS",
    "MECHANISMS",
    "NODE",
    "RECORD",
    "VECTOR_MECHANISMS",
    "AreaTotals",
    "Assessment",
    "Attribute",
    "Cell",
    "Cells",
    "Certificate",
    "Control",
    "Cube",
    "CubeOutline",
    "CubePlan",
    "Decisions",
    "DropFrom",
    "EngineFailure",
    "Estimates",
    "ExpectedError",
    "Fault",
    "Faulty",
    "Group",
    "Guarantee",
    "Impossible",
    "Ledger",
    "Listing",
    "LodesTable",
    "Marginal",
    "Mechanism",
    "NoisyTotal",
    "Plan",
    "Prediction",
    "Protected",
    "ProtectedCube",
    "Query",
    "Random",
    "Ranking",
    "Refusal",
    "Release",
    "Reservation",
    "ScaleEach",
    "ScaleTo",
    "Schema",
    "SeededRandom",
    "Shape",
    "Shares",
    "Shrunk",
    "Signer",
    "SizeClasses",
    "Strong",
    "Survey",
    "Tables",
    "Tabulator",
    "Thresholds",
    "Unreadable",
    "Variable",
    "Verification",
    "Weak",
    "WorkerShares",
    "WorkplaceSizes",
    "area_totals",
    "assess_cube",
    "assess_cube_file",
    "build_cube",
    "build_cube_file",
    "certify_grid",
    "check",
    "check_survey",
    "load",
    "lodes",
    "mechanism",
    "memo",
    "new_csv",
    "new_file",
    "outlook",
    "parameters_from_text",
    "plan_cube",
    "protect_cube",
    "public_key_of",
    "publish",
    "rank",
    "read_schema",
    "read_survey",
    "register",
    "shrink",
    "size_classes",
    "stream",
    "tabulate",
    "threshold",
    "verify",
    "write_assessment",
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
