"""eree_study: what shows that eree works; nothing in eree imports it.

Synthetic populations, the method before and the attacks on it, the papers' experiments, the demo.
Each name is imported when it is first used, as in `eree`.
"""

TYPE_CHECKING = False  # typing's own costs an import

if TYPE_CHECKING:
    from eree_study.legacy.attacks import AttackFindings, run_attacks
    from eree_study.legacy.games import success_bound
    from eree_study.legacy.infusion import (
        RAMP,
        WIDE,
        Infused,
        Ramp,
        infuse,
        new_key,
        read_key,
        write_infused,
    )
    from eree_study.papers.report import StudyReport, study_report
    from eree_study.papers.requirements import requirements_table
    from eree_study.papers.study import Study, run_study
    from eree_study.querytool.study import CubeStudy, cube_study
    from eree_study.synth import synthesize
    from eree_study.synth.survey import synthesize_survey

_HOMES = {
    "eree_study.legacy.attacks": ("AttackFindings", "run_attacks"),
    "eree_study.legacy.games": ("success_bound",),
    "eree_study.legacy.infusion": (
        *("RAMP", "WIDE", "Infused", "Ramp", "infuse", "new_key", "read_key", "write_infused"),
    ),
    "eree_study.papers.report": ("StudyReport", "study_report"),
    "eree_study.papers.requirements": ("requirements_table",),
    "eree_study.papers.study": ("Study", "run_study"),
    "eree_study.querytool.study": ("CubeStudy", "cube_study"),
    "eree_study.synth": ("synthesize",),
    "eree_study.synth.survey": ("synthesize_survey",),
}

__all__ = [
    "RAMP",
    "WIDE",
    "AttackFindings",
    "CubeStudy",
    "Infused",
    "Ramp",
    "Study",
    "StudyReport",
    "cube_study",
    "infuse",
    "new_key",
    "read_key",
    "requirements_table",
    "run_attacks",
    "run_study",
    "study_report",
    "success_bound",
    "synthesize",
    "synthesize_survey",
    "write_infused",
]


def __getattr__(name: str) -> object:
    from importlib import import_module

    for home, names in _HOMES.items():
        if name in names:
            value = globals()[name] = getattr(import_module(home), name)
            return value
    raise AttributeError(f"module 'eree_study' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*__all__]
