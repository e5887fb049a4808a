"""The settings that say how a cube is protected, each with its default, apart from all arithmetic.

`plan_cube`, `protect_cube` and the options of the commands take them from here; nothing that is
slow to import comes with them, so that a command starts fast.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, get_args

from eree.errors import Refusal
from eree.policy.neighbours import Exact, exact

if TYPE_CHECKING:
    from eree.survey.bounds import Shares

Method = Literal["none", "rake", "rake-nonnegative", "least-squares"]
METHODS: tuple[Method, ...] = get_args(Method)
#: Methods whose noise has a bound instead of a variance.
RAKED: tuple[Method, ...] = ("rake", "rake-nonnegative")

ModeName = Literal["guaranteed", "as-published"]
MODE_NAMES: tuple[ModeName, ...] = get_args(ModeName)

#: Whose presence is protected.
Unit = Literal["record", "establishment"]
UNITS: tuple[Unit, ...] = get_args(Unit)

#: Which squares are added up for the model of sampling variances.
Squares = Literal["establishments", "records"]
SQUARES: tuple[Squares, ...] = get_args(Squares)


@dataclass(frozen=True, kw_only=True)
class CubeSettings:
    """How a cube is to be protected, at the price of `epsilon` and `delta` for one `unit`.

    `controls` are tables, each named by its variables, that get a share of the price of their own
    and that the cube is calibrated to; by default all one-way tables, where that helps (see
    `default_controls`).  `calibration` is by default least squares, whose remaining noise is known;
    raked cubes (at most `cycles`) publish a bound of it.  `squares` are the squared weights of
    records, or the squared totals of establishments, whose noisy sum makes a model of sampling
    variances; by default of establishments where the cube bounds their records.  `shares` divides
    the price among them all.

    The mode `as-published` needs a `cap`, and takes its delta from it.  It publishes control tables
    without noise unless `exact_controls` is false, rakes to them, and of the empty cells it keeps
    the share `keep_empty`.
    """

    epsilon: Exact
    delta: Exact = 0
    mode: ModeName = "guaranteed"
    unit: Unit = "record"
    controls: Sequence[Sequence[str]] | None = None
    calibration: Method | None = None
    cycles: int | None = None
    shares: Shares | None = None
    squares: Squares | Literal["none"] | None = None
    cap: int | None = None
    exact_controls: bool | None = None
    keep_empty: Exact | None = None

    def __post_init__(self) -> None:
        if self.calibration is not None and self.calibration not in METHODS:
            raise Refusal(
                f"there is no calibration {self.calibration!r}; there are {', '.join(METHODS)}"
            )
        if self.mode == "as-published":
            paid_for = self.shares is not None or self.squares not in (None, "none")
            if self.unit != "record" or paid_for or exact(self.delta, "delta"):
                raise Refusal(
                    "as published, records are protected at the delta that the cap gives; leave out"
                    " unit, delta, shares and squares"
                )
            if self.cap is None:
                raise Refusal("as published, noise has a cap; give one, such as 7")
        elif self.mode == "guaranteed":
            if (self.cap, self.exact_controls, self.keep_empty) != (None, None, None):
                raise Refusal(
                    "cap, exact_controls and keep_empty are for cubes as published; a guaranteed"
                    " cube takes its cap from delta, has noise in all tables and keeps every empty"
                    " cell"
                )
        else:
            raise Refusal(f"there is no mode {self.mode!r}; there are {', '.join(MODE_NAMES)}")
