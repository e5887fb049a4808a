"""The public names, each once; `__init__.py` imports a name from its module when it is used."""

from eree_study.legacy.attacks import AttackFindings as AttackFindings
from eree_study.legacy.attacks import run_attacks as run_attacks
from eree_study.legacy.games import success_bound as success_bound
from eree_study.legacy.infusion import RAMP as RAMP
from eree_study.legacy.infusion import WIDE as WIDE
from eree_study.legacy.infusion import Infused as Infused
from eree_study.legacy.infusion import Ramp as Ramp
from eree_study.legacy.infusion import infuse as infuse
from eree_study.legacy.infusion import new_key as new_key
from eree_study.legacy.infusion import read_key as read_key
from eree_study.legacy.infusion import write_infused as write_infused
from eree_study.papers.others import OtherMethods as OtherMethods
from eree_study.papers.others import other_methods as other_methods
from eree_study.papers.report import StudyReport as StudyReport
from eree_study.papers.report import study_report as study_report
from eree_study.papers.requirements import requirements_table as requirements_table
from eree_study.papers.study import Study as Study
from eree_study.papers.study import run_study as run_study
from eree_study.papers.wac import WacStudy as WacStudy
from eree_study.papers.wac import wac_study as wac_study
from eree_study.querytool.study import CubeStudy as CubeStudy
from eree_study.querytool.study import cube_study as cube_study
from eree_study.rehearsal import Rehearsal as Rehearsal
from eree_study.rehearsal import rehearse as rehearse
from eree_study.synth import synthesize as synthesize
from eree_study.synth.survey import synthesize_survey as synthesize_survey
