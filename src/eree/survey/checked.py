"""What a check of a survey found."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from eree.errors import Fault

if TYPE_CHECKING:
    from eree.survey.microdata import Survey


@dataclass(frozen=True, repr=False)
class CheckedSurvey:
    """The survey if it is sound, else every fault; false if there is one.

    `if not eree.check_survey("survey"): ...`
    """

    survey: Survey | None
    faults: tuple[Fault, ...]

    def __bool__(self) -> bool:
        return self.survey is not None

    def __repr__(self) -> str:
        found = "; ".join(map(str, self.faults)) or str(self.survey)
        return f"<CheckedSurvey, {len(self.faults)} faults: {found}>"
