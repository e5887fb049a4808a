"""The demonstration: a synthetic population and a synthetic survey through everything."""

from eree_study.demo.findings import Findings
from eree_study.demo.run import run_demo
from eree_study.demo.strata import STRATA, Accuracy, Exposure
from eree_study.demo.survey import CubeAccuracy, SurveyFindings

__all__ = [
    "STRATA",
    "Accuracy",
    "CubeAccuracy",
    "Exposure",
    "Findings",
    "SurveyFindings",
    "run_demo",
]
