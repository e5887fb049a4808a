"""The command that rechecks what mechanisms promise."""

from __future__ import annotations

import json
from dataclasses import asdict

import click

import eree
from eree.cli.options import as_json, certificates, cli, fresh_option
from eree.cli.terminal import progress


@cli.command(
    short_help="Recheck what a mechanism promises.",
    examples=[
        "eree certify smooth-pareto --alpha 0.1 --epsilon 2",
        "eree certify smooth-laplace --alpha 0.1 --epsilon 2 --delta 3e-5 --json",
        "eree certify truncated-laplace --epsilon 1 --set theta=50",
        "eree certify vector-radial --alpha 0.1 --epsilon 2 --set cells=8",
        "eree certify marginals-radial --alpha 0.1 --epsilon 4 --set blocks=3,3,6,2,4,2",
        "eree certify threshold-geometric --alpha 0.1 --epsilon 0.04",
        "eree certify --all     every mechanism over the papers' grid, some minutes",
    ],
)
@click.argument("name", metavar="MECHANISM", required=False)
@click.option("--alpha", metavar="A", help="The share by which a workplace may grow, such as 0.1.")
@click.option("--epsilon", metavar="E", help="The price of one step, such as 2.")
@click.option("--delta", metavar="D", help="The probability that may be left over.")
@click.option("--set", "given", multiple=True, metavar="P=V", help="A parameter of the mechanism.")
@click.option("--all", "whole_grid", is_flag=True, help="Every mechanism over the papers' grid.")
@fresh_option
@as_json
def certify(
    name: str | None,
    alpha: str | None,
    epsilon: str | None,
    delta: str | None,
    given: tuple[str, ...],
    whole_grid: bool,
    fresh: bool,
    as_json: bool,
) -> None:
    """Find the worst loss of MECHANISM over all neighbouring cells.

    It is computed from the probabilities of the outputs alone, and compared with what is claimed.
    What was found once for the same mechanism, parameters and source is kept; --all and --fresh
    compute it again.  Exit status: 0 the claim holds, 1 it does not, 2 there is no such mechanism
    for these parameters.
    """
    if whole_grid:
        if name or alpha or epsilon or delta or given:
            raise eree.Refusal("--all takes no mechanism and no parameters; leave them out")
        certify_all(as_json)
        return
    if name is None or epsilon is None:
        from eree.mechanisms.registry import OF_MARGINALS, OF_WORKPLACES

        others = (OF_WORKPLACES, OF_MARGINALS)
        known = ", ".join((*eree.MECHANISMS, *eree.VECTOR_MECHANISMS, *others))
        raise eree.Refusal(
            f"name a mechanism and an --epsilon, or ask for --all; there are {known}"
        )
    from eree.mechanisms.cache import certificate_of

    with progress() as tell:
        tell(f"calibrating {name}", 0.0)
        with certificates(fresh):  # what it was calibrated to is computed again too
            chosen = eree.mechanism(
                name, alpha=alpha, epsilon=epsilon, delta=delta, **eree.parameters_from_text(given)
            )
            tell(f"finding the worst loss of {name}", 0.5)
            certificate, computed = certificate_of(chosen)
    if as_json:
        errors = {
            f"{workers:,}": asdict(chosen.expected_error(eree.Cell(workers)))
            for workers in (1, 100)
        }
        found = certificate.as_json()
        more = {"parameters": chosen.parameters, "errors": errors, "kept": not computed}
        click.echo(json.dumps(found | more))
    else:
        for line in certificate.words():
            click.echo(line)
    if not certificate.holds:
        click.get_current_context().exit(1)


def certify_all(as_json: bool) -> None:
    """Certify every mechanism over the papers' grid."""
    with progress() as tell:
        points = eree.certify_grid(progress=tell)
    if as_json:
        click.echo(json.dumps({"points": [asdict(point) for point in points]}))
    else:
        click.echo(
            f"{'mechanism':21}{'alpha':>6}{'epsilon':>8}{'found':>10}{'delta':>10}"
            f"{'S = 1':>11}{'large S':>10}"
        )
        for point in points:
            head = f"{point.mechanism:21}{point.alpha:>6}{point.epsilon:>8}"
            if point.refusal is not None:
                click.echo(f"{head}{'–':>10}{'–':>10}{'–':>11}{'–':>10}")
                continue
            fault = "" if point.holds else "  EXCEEDED"
            click.echo(
                f"{head}{point.found_epsilon:>10.5f}{point.found_delta:>10.2g}"
                f"{point.small:>11.4g}{point.large:>10.4g}{fault}"
            )
        held = sum(point.holds is True for point in points)
        missing = sum(point.refusal is not None for point in points)
        click.echo(
            f"{held} claims hold, {len(points) - held - missing} do not; – marks {missing} points"
            " where a mechanism does not exist.\n"
            "Errors are mean absolute ones, the last column in units of S."
        )
    if any(point.holds is False for point in points):
        click.get_current_context().exit(1)
