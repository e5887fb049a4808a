"""The demonstration: a made-up population and a made-up survey through everything."""

from eree.demo.findings import Findings
from eree.demo.run import run_demo
from eree.demo.strata import STRATA, Accuracy, Exposure
from eree.demo.survey import CubeAccuracy, SurveyFindings

__all__ = [
    "STRATA",
    "Accuracy",
    "CubeAccuracy",
    "Exposure",
    "Findings",
    "SurveyFindings",
    "run_demo",
]
