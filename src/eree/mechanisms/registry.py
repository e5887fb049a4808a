"""Mechanisms by name, so that a plan, a release and a certificate speak of the same thing.

A mechanism is imported when it is first named, so that a release reads the source of those alone
that it could take.  Besides those of eree there are those of others: a class that keeps the
contract of `Mechanism` is known by its name once it was given to `register`, or stands under its
name in the entry points `eree.mechanisms` of an installed package, as commands and other processes
need it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import cache, lru_cache
from importlib import import_module
from inspect import signature
from itertools import pairwise
from math import ceil, inf, isfinite, log, log2, prod, sqrt
from re import fullmatch
from statistics import NormalDist
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeVar

from eree.cells import USUAL_DEVIATION, USUAL_MEDIAN, Cell
from eree.errors import Refusal, hint
from eree.mechanisms.mechanism import Mechanism
from eree.mechanisms.parameters import TooLittle, alpha_of, cheapest
from eree.mechanisms.vector.vector import VectorMechanism
from eree.policy.guarantee import Guarantee
from eree.policy.neighbours import Edge, Exact, Node, Weak, exact, plain

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint, EntryPoints

M = TypeVar("M", bound=Mechanism)
M_co = TypeVar("M_co", bound=Mechanism, covariant=True)


class Named(Mapping[str, type[M_co]]):
    """Mechanisms by name, each imported when it is asked for."""

    def __init__(self, places: Mapping[str, str]) -> None:
        self.places = MappingProxyType(dict(places))

    def __getitem__(self, name: str) -> type[M_co]:
        module, _, kind = self.places[name].partition(":")
        found: type[M_co] = getattr(import_module(f"eree.mechanisms.{module}"), kind)
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(self.places)

    def __len__(self) -> int:
        return len(self.places)

    def __contains__(self, name: object) -> bool:
        return name in self.places


MECHANISMS: Named[Mechanism] = Named(
    {
        "smooth-pareto": "scaled.smooth_pareto:SmoothPareto",
        "log-laplace": "published.log_laplace:LogLaplace",
        "log-laplace-tight": "published.log_laplace:TightLogLaplace",
        "smooth-gamma": "published.smooth_gamma:SmoothGamma",
        "smooth-gamma-tight": "published.smooth_gamma:TightSmoothGamma",
        "smooth-laplace": "published.smooth_laplace:SmoothLaplace",
        "smooth-laplace-exact": "published.smooth_laplace:SmoothLaplaceExact",
        "linlog": "transformed.linlog:LinLog",
        "linlog-integer": "transformed.linlog:IntegerLinLog",
        "radial": "scaled.radial:Radial",
        "leaning-staircase": "staircase.leaning_staircase:LeaningStaircase",
        "truncated-laplace": "published.fixed:TruncatedLaplace",
        "edge-geometric": "published.fixed:EdgeGeometric",
        "capped-laplace": "published.fixed:CappedLaplace",
    }
)
"""Mechanisms of single counts, by name.

Examples:
    >>> "smooth-pareto" in eree.MECHANISMS
    True
"""

VECTOR_MECHANISMS: Named[VectorMechanism] = Named(
    {
        "vector-mixture": "vector.mixture:VectorMixture",
        "vector-radial": "vector.radial:VectorRadial",
        "vector-pareto": "vector.pareto:VectorPareto",
        "knorm-staircase": "vector.knorm_staircase:KNormStaircase",
        "two-stage-clip": "vector.two_stage:TwoStageClip",
    }
)
"""Mechanisms of all worker cells of a group at once, by name.

Examples:
    >>> "vector-mixture" in eree.VECTOR_MECHANISMS
    True
"""

#: The mechanism of numbers of workplaces by size; all others are of numbers of jobs.
OF_WORKPLACES = "threshold-geometric"
#: That of several marginals of the same workers at once.
OF_MARGINALS = "marginals-radial"
_OURS: Named[Mechanism] = Named(
    {
        **MECHANISMS.places,
        **VECTOR_MECHANISMS.places,
        OF_WORKPLACES: "threshold_geometric:ThresholdGeometric",
        OF_MARGINALS: "vector.marginals_radial:MarginalsRadial",
    }
)

#: Workplaces of a group, where errors are compared, and how many times 1 / alpha workers the
#: largest has from which on noise grows in proportion.
_WORKPLACES, _LARGE = 20, 16
#: As many times as much epsilon is little more, and such a share of the error is much less.
_LITTLE_MORE, _MUCH_LESS = 1.5, 0.8
#: The vector mechanism that has the least error wherever there is epsilon enough, and the one that
#: needs the least.
_LEAST, _TWO_STAGE = "vector-mixture", "two-stage-clip"
#: Shares of epsilon that the first stage of `two-stage-clip` may take.
_SHARES: tuple[Exact, ...] = ("1/5", "1/4", "1/3", "2/5", "1/2", "3/5")


@lru_cache(maxsize=256)  # a plan of many tables asks for the same again and again
def automatic_vector(
    guarantee: Guarantee, cells: int, *, alone: bool = False
) -> tuple[VectorMechanism, str]:
    """The vector mechanism with the least error, by alpha, epsilon and the number of cells alone.

    Errors are compared in groups of twenty workplaces whose sizes are as most are; if every group
    is a workplace `alone`, in one of ten times 1 / alpha workers, as such tables are of large ones.
    The text says what was chosen, and why, and where little more epsilon would buy much less error.
    """
    names = [_LEAST, "vector-pareto", _TWO_STAGE]
    if isinstance(guarantee.neighbours, Weak):
        names.insert(0, "knorm-staircase")
    found: list[tuple[float, VectorMechanism]] = []
    refusals: dict[str, Refusal] = {}
    for name in names:
        try:
            made = _calibrated(name, guarantee, cells)
            found.append((usual_error(made, alone), made))
        except Refusal as refusal:
            refusals[name] = refusal
    if not found:
        raise cheapest(reversed(refusals.values()))
    error, chosen = min(found, key=lambda pair: pair[0])
    why = f"protects all {cells} worker cells at once with the least error"
    little = refusals.get(_LEAST)
    if chosen.name == _TWO_STAGE and little is not None:
        why = f"because {str(little).partition(';')[0]}"
    enough = little.enough if isinstance(little, TooLittle) else None
    if enough is not None and enough <= _LITTLE_MORE * guarantee.epsilon:
        better = _calibrated(_LEAST, Guarantee(guarantee.neighbours, enough), cells)
        share = usual_error(better, alone) / error
        if share <= _MUCH_LESS:
            prices = f"epsilon {plain(enough)} instead of {plain(guarantee.epsilon)}"
            why += f"; {prices} would have {share:.0%} of the error"
    return chosen, f"{chosen.name} {why}"


def _calibrated(name: str, guarantee: Guarantee, cells: int) -> VectorMechanism:
    """A mechanism; one with a first stage at the share that has the least error in large groups."""
    kind: Any = VECTOR_MECHANISMS[name]
    if name != _TWO_STAGE:
        made: VectorMechanism = kind.calibrate(guarantee, cells=cells)
        return made
    # the last is the greatest
    found: list[VectorMechanism] = [kind.calibrate(guarantee, cells=cells, share=_SHARES[-1])]
    for share in _SHARES[:-1]:
        with suppress(Refusal):
            found.append(kind.calibrate(guarantee, cells=cells, share=share))
    return min(found, key=lambda one: usual_error(one, alone=True))


def usual_error(made: Mechanism, alone: bool = False) -> float:
    """The mean error of a cell in groups of twenty workplaces, or of one that is large, `alone`.

    Where noise looks at the counts, a group of several workplaces has three times as many workers
    as the largest.
    """
    largest = int(10 / alpha_of(made.guarantee, made.name))
    mix = [(largest, 1.0)] if alone else _usual_largest(ceil(log2(_LARGE * max(largest / 10, 1))))
    more = 1 if alone or made.first_stage is not None else 3  # its noise goes by the largest alone
    error = sum(
        share * made.total_error(Cell(more * (size // made.at_once), size)) for size, share in mix
    )
    return error if isfinite(error) else inf


@cache
def _usual_largest(doublings: int) -> list[tuple[int, float]]:
    """Sizes of the largest of some workplaces, and how often each is, from and up to its like.

    Noise of those with 2^doublings workers or more grows in proportion: each counts as often as it
    has the last of the sizes.
    """
    greatest = 2**doublings
    usual = NormalDist(log(USUAL_MEDIAN), USUAL_DEVIATION)
    sizes = [2**i for i in range(24)]
    up_to = [usual.cdf(log(size * sqrt(2))) ** _WORKPLACES for size in sizes]
    shares = dict(zip(sizes[1:], (b - a for a, b in pairwise(up_to)), strict=True))
    last = sum(share * size for size, share in shares.items() if size >= greatest) / greatest
    return [*((size, shares[size]) for size in sizes[3:] if size < greatest), (greatest, last)]


#: The name that leaves the choice to us.
AUTO = "auto"
#: Pure mechanisms for any cell, from which `auto` chooses.
_CHOICE = ("smooth-pareto", "radial", "leaning-staircase")

#: Mechanisms of others, by name.
_OWN: dict[str, type[Mechanism]] = {}
_NAME = "[a-z][a-z0-9-]{0,60}"


def register(kind: type[M]) -> type[M]:
    """Make a mechanism of your own known by its name; a decorator of its class.

    Args:
        kind: A class that keeps the contract of `Mechanism`.

    Examples:
        >>> from eree.mechanisms.scaled.smooth_pareto import SmoothPareto
        >>> @eree.register
        ... class Ours(SmoothPareto):
        ...     name = "ours"
        >>> eree.mechanism("ours", alpha="0.1", epsilon=2).name
        'ours'
    """
    if not (isinstance(kind, type) and issubclass(kind, Mechanism)):
        raise Refusal("a mechanism is a class that keeps the contract of eree.Mechanism")
    missing = sorted(kind.__abstractmethods__)
    if missing:
        raise Refusal(f"{kind.__name__} lacks {', '.join(missing)}, which every mechanism has")
    name = getattr(kind, "name", None)
    if not isinstance(name, str) or not fullmatch(_NAME, name) or name == AUTO:
        raise Refusal("a mechanism's name is of small letters, digits and hyphens, and not 'auto'")
    known = _OURS.get(name) or _OWN.get(name)
    if known is not None and _place(known) != _place(kind):
        raise Refusal(f"there is a mechanism named {name!r}; give yours another name")
    if kind.together and not issubclass(kind, VectorMechanism):
        raise Refusal(f"{name} draws groups at once: its class must be a VectorMechanism")
    if kind.first_stage is not Mechanism.first_stage and not issubclass(kind, _OURS[_TWO_STAGE]):
        raise Refusal(f"{name} has a first stage of its own, which releases do not know")
    _OWN[name] = kind
    return kind


def _place(kind: type[Mechanism]) -> tuple[str, str]:
    """Where a class is defined."""
    return kind.__module__, kind.__qualname__


def is_ours(mechanism: Mechanism) -> bool:
    """Whether a mechanism is one of eree's."""
    known = _OURS.get(mechanism.name)
    return known is not None and _place(known) == _place(type(mechanism))


def ours(name: str) -> bool:
    """Whether a name is that of one of eree's mechanisms; no other is imported to find out."""
    return name in _OURS


def own_mechanisms() -> tuple[str, ...]:
    """The names of all mechanisms that are not eree's and can be imported."""
    for point in _entry_points():
        with suppress(Refusal):
            _load(point)
    return tuple(sorted(_OWN))


def kind_of(name: str) -> type[Mechanism]:
    """The mechanism of a name."""
    kind = _OURS.get(name) or _OWN.get(name)
    if kind is not None:
        return kind
    for point in _entry_points():
        if point.name == name:
            return _load(point)
    known = (AUTO, *_OURS, *own_mechanisms())
    listed = ", ".join(known) + hint(name, known)
    raise Refusal(f"there is no mechanism named {name!r}; there are {listed}")


@cache
def _entry_points() -> EntryPoints:
    from importlib.metadata import entry_points

    return entry_points(group="eree.mechanisms")


def _load(point: EntryPoint) -> type[Mechanism]:
    """The mechanism of an installed package, whatever its code does."""
    try:
        kind = point.load()
    except Exception as error:
        why = type(error).__name__
        raise Refusal(f"the mechanism {point.name!r} of a package fails ({why})") from None
    if getattr(kind, "name", None) != point.name:
        raise Refusal(f"the entry point {point.name!r} is no mechanism of that name")
    return register(kind)


@lru_cache(maxsize=256)  # a plan of many tables asks for the same again and again
def automatic(guarantee: Guarantee, *, alone: bool = False) -> Mechanism:
    """The mechanism for one cell with the least error, by alpha and epsilon alone.

    Errors are compared in cells of one worker, of workplaces that may grow by 1, 2, 5 and 20
    workers at once, and of very large ones, by the product of the means.  Where every cell is a
    workplace `alone`, its count is its size, and noise may go by the count.
    """
    alpha = alpha_of(guarantee, AUTO)
    best: tuple[float, Mechanism] | None = None
    refusals = []
    for name in (*_CHOICE, "linlog-integer") if alone else _CHOICE:
        try:
            made = MECHANISMS[name].calibrate(guarantee)
        except Refusal as refused:
            refusals.append(refused)
            continue
        sizes = [1, *(ceil(joined / alpha) for joined in (1, 2, 5, 20, 1_000))]
        error = prod(made.mean_error(Cell(size * alone, size))[0] for size in sizes)
        if best is None or error < best[0]:
            best = error, made
    if best is None:
        raise cheapest(refusals)
    return best[1]


def calibrate(
    name: str, guarantee: Guarantee, parameters: Mapping[str, Any] | None = None
) -> Mechanism:
    """The mechanism of a name, calibrated to a guarantee, with parameters of its own."""
    if name == AUTO:
        if parameters:
            raise Refusal("auto takes no parameters; name a mechanism that does")
        return automatic(guarantee)
    kind, given = kind_of(name), dict(parameters or {})
    known = [p for p in signature(kind.calibrate).parameters if p != "guarantee"]
    for parameter in given:
        if parameter not in known:
            what = f"only {', '.join(known)}" if known else "no parameters"
            near = hint(parameter, known)
            raise Refusal(f"{name} has no parameter {parameter!r}; it takes {what}{near}")
    made = kind.calibrate(guarantee, **given)
    if name == OF_WORKPLACES:  # for all neighbours there are
        return made
    meant, asked = kind.relation("1"), guarantee.neighbours
    plain_ones = (Edge, Node)
    if (isinstance(meant, plain_ones) or isinstance(asked, plain_ones)) and meant != asked:
        raise Refusal(f"{name} is for {meant.name} neighbours")
    return made


def mechanism(
    name: str,
    *,
    alpha: Exact | None = None,
    epsilon: Exact,
    delta: Exact | None = None,
    **parameters: Any,
) -> Mechanism:
    """The mechanism of a name, or `auto`, calibrated to an alpha, an epsilon and a delta.

    The neighbours are strong ones, except where the mechanism is for edge or node neighbours, which
    have no alpha, or for weak ones, whose type is then called `type`.

    Args:
        name: A name of `MECHANISMS` or `VECTOR_MECHANISMS`, or `auto`.
        alpha: The growth that is protected, such as "0.1".
        epsilon: The privacy loss.
        delta: The probability of a larger one; where a mechanism needs one, by default the one
            that its authors claim.
        **parameters: Those of the mechanism, such as `theta`, the number of `cells` that a vector
            mechanism protects together, or the `blocks` of `marginals-radial`.

    Examples:
        >>> made = eree.mechanism("smooth-pareto", alpha="0.1", epsilon=2)
        >>> round(made.expected_error(eree.Cell(count=120, largest=40)).mean_absolute, 2)
        2.02
    """
    if name == AUTO and alpha is None:
        raise Refusal("auto needs an alpha, such as '0.1'")
    kind: type[Mechanism] = kind_of(_CHOICE[0] if name == AUTO else name)
    relation, whole = kind.relation(alpha), exact(epsilon, "epsilon")
    if delta is None:
        delta = kind.default_delta(getattr(relation, "alpha", None), whole)
    return calibrate(name, Guarantee(relation, whole, delta), parameters)
