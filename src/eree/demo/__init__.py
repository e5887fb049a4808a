"""The demonstration: a made-up population through everything, from tables to a ranking."""

from eree.demo.findings import Findings
from eree.demo.run import run_demo
from eree.demo.strata import STRATA, Accuracy, Exposure

__all__ = ["STRATA", "Accuracy", "Exposure", "Findings", "run_demo"]
