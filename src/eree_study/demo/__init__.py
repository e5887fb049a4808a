"""The demonstration: a synthetic population and a synthetic survey through everything."""

from eree_study.demo.accuracy import STRATA, Accuracy, Exposure
from eree_study.demo.demonstration import Findings, run_demo
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
