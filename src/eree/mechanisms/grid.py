"""The papers' grid: every mechanism at every alpha and epsilon, with its certificate and error."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from fractions import Fraction
from math import ceil
from typing import Any, TypeVar

from eree.cells import Cell
from eree.errors import Refusal
from eree.mechanisms.registry import MECHANISMS, VECTOR_MECHANISMS, mechanism
from eree.policy.neighbours import Strong, Weak

Result = TypeVar("Result")
ALPHAS = ("0.01", "0.05", "0.1", "0.15", "0.2")
EPSILONS = ("0.25", "0.5", "0.67", "1", "2", "4")
#: How many scales the large cell of an error has.
LARGE = 1_000
#: How many cells vector mechanisms protect together: two sexes by four levels of education.
CELLS = 8


@dataclass(frozen=True)
class Point:
    """One mechanism at one alpha and epsilon.

    `small` is the mean absolute error of a cell with one worker; `large`, that of a cell with one
    workplace of a thousand times 1 / alpha workers, in units of S.  A vector mechanism protects
    eight cells, of which the others are empty; the errors of `two-stage-clip` are those against a
    count scaled to that workplace.  Where the mechanism does not exist, `refusal` says why and the
    rest is None.
    """

    mechanism: str
    alpha: str
    epsilon: str
    claimed_delta: float | None = None
    found_epsilon: float | None = None
    found_delta: float | None = None
    holds: bool | None = None
    small: float | None = None
    large: float | None = None
    refusal: str | None = None


def grid_point(name: str, alpha: str, epsilon: str) -> Point:
    """Certify one mechanism at one alpha and epsilon."""
    groups = {"cells": CELLS} if name in VECTOR_MECHANISMS else {}
    try:
        chosen = mechanism(name, alpha=alpha, epsilon=epsilon, **groups)
    except Refusal as refusal:
        return Point(name, alpha, epsilon, refusal=str(refusal))
    certificate = chosen.certify()
    # noise that does not grow with the workplace is in units of one worker
    grows = isinstance(chosen.guarantee.neighbours, (Strong, Weak))
    size = ceil(LARGE / Fraction(alpha)) if grows else 1
    large = chosen.mean_error(Cell(size))[0]
    return Point(
        name,
        alpha,
        epsilon,
        certificate.claimed_delta,
        certificate.found_epsilon,
        certificate.found_delta,
        certificate.holds,
        chosen.mean_error(Cell(1))[0],
        large / float(max(Fraction(alpha) * size, Fraction(1))),
    )


def certify_grid(
    names: Iterable[str] = (*MECHANISMS, *VECTOR_MECHANISMS),
    alphas: Sequence[str] = ALPHAS,
    epsilons: Sequence[str] = EPSILONS,
    *,
    progress: Callable[[str, float], None] = lambda _step, _done: None,
    processes: int | None = None,
) -> list[Point]:
    """Certify mechanisms over a grid, on every core; points come in the order of the grid.

    Args:
        names: Names of mechanisms.
        alphas: Alphas, as texts.
        epsilons: Epsilons, as texts.
        progress: Called with a step and the share that is done.
        processes: On how many processes; one is this one.

    Examples:
        >>> [point] = eree.certify_grid(["log-laplace"], ["0.1"], ["2"], processes=1)
        >>> point.holds
        True
    """
    wanted = [(name, alpha, epsilon) for name in names for alpha in alphas for epsilon in epsilons]
    found: dict[int, Point] = {}
    for number, point in on_every_core(grid_point, wanted, processes):
        found[number] = point
        name, alpha, epsilon = wanted[number]
        progress(f"{name} at alpha {alpha}, epsilon {epsilon}", len(found) / len(wanted))
    return [found[i] for i in range(len(wanted))]


def on_every_core(
    work: Callable[..., Result], arguments: Sequence[tuple[Any, ...]], processes: int | None = None
) -> Iterator[tuple[int, Result]]:
    """Do work for all arguments in processes of their own; yields what is done, with its place.

    One process is this one.
    """
    count = processes or os.cpu_count() or 1
    if count == 1:
        yield from ((i, work(*given)) for i, given in enumerate(arguments))
        return
    pool = ProcessPoolExecutor(
        count,
        mp_context=multiprocessing.get_context("spawn"),
        initializer=_leave_interrupts_to_the_parent,
    )
    workers = set(multiprocessing.active_children())
    try:
        waiting = {pool.submit(work, *given): i for i, given in enumerate(arguments)}
        workers = set(multiprocessing.active_children()) - workers
        for done in as_completed(waiting):
            yield waiting[done], done.result()
    except BaseException:
        for worker in workers:  # whoever interrupts does not want to wait for the last ones
            worker.terminate()
        raise
    finally:
        pool.shutdown(cancel_futures=True)


def _leave_interrupts_to_the_parent() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
