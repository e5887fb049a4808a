"""What commands are made of: the group they belong to, options of many, and safe arguments."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

import eree
from eree.cli.interrupts import Interrupts
from eree.errors import Refusal

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint, EntryPoints

#: The group of entry points by which packages add commands.
ADDED = "eree.commands"
#: The files of commands, and one that starts without the others.
FILES = (
    *("certify", "commands", "compare", "cube", "ledger", "protect", "rank", "record", "release"),
    (ALONE := "serve"),
)
#: Whether every step is written; kept with the context of the command that runs.
VERBOSE = "eree.verbose"
#: What parameters are called that name a ledger.
LEDGERS = ("ledger", "where")


def number(name: str, words: str, default: int | None = None) -> Callable[..., Any]:
    """An option that takes an integer; the library says which ones it accepts."""
    shown = default is not None
    return click.option(
        name, type=int, metavar="N", default=default, show_default=shown, help=words
    )


def path(name: str, metavar: str, words: str, **settings: Any) -> Callable[..., Any]:
    """An option that takes the path of a file or folder."""
    kind = click.Path(path_type=Path)
    return click.option(name, type=kind, metavar=metavar, help=words, **settings)


def ledger_option(words: str) -> Callable[..., Any]:
    """The ledger of whoever spends, which an office may name once for all commands."""
    return click.option(
        "--ledger", metavar="WHERE", envvar="EREE_LEDGER", show_envvar=True, help=words
    )


folder_argument = click.argument("folder", type=click.Path(path_type=Path))
fresh_option = click.option(
    "--fresh",
    is_flag=True,
    help="Compute certificates again, and take none that is kept in the cache folder.",
)


def certificates(fresh: bool) -> AbstractContextManager[None]:
    """Within it certificates are computed again, or else those that are kept will do."""
    if not fresh:
        return nullcontext()
    from eree.mechanisms.cache import computed_again  # arithmetic takes a while to load

    return computed_again()


as_json = click.option("--json", "as_json", is_flag=True, help="Print one JSON object on stdout.")


def with_engine(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that choose and limit the query engine."""
    threads = click.IntRange(1, 256)
    for option in (
        click.option("--threads", type=threads, metavar="N", help="Threads DuckDB may use."),
        click.option("--memory-limit", metavar="SIZE", help="Memory DuckDB may use, such as 4GB."),
        click.option(
            "--engine",
            default="duckdb",
            show_default=True,
            metavar="ENGINE",
            help="duckdb, spark, or a Spark master URL such as local[2].",
        ),
    ):
        command = option(command)
    return command


class Command(click.Command):
    """A command whose help ends with examples, and whose ledger may have a password."""

    def __init__(self, *settings: Any, examples: Sequence[str] = (), **named: Any) -> None:
        super().__init__(*settings, **named)
        self.examples = examples

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read the arguments; the address of a ledger gets back its password."""
        rest = super().parse_args(ctx, args)
        for name in LEDGERS:
            if isinstance(ctx.params.get(name), str):
                ctx.params[name] = with_password(ctx.params[name])
        return rest

    def invoke(self, ctx: click.Context) -> Any:
        """Run it; so far nothing was made."""
        if interrupts := ctx.find_object(Interrupts):
            interrupts.begin()
        return super().invoke(ctx)

    def format_epilog(self, _ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the examples as they are, one to a line."""
        if self.examples:
            formatter.write("\nExamples:\n")
            for example in self.examples:
                formatter.write(f"  {example}\n")


@cache
def _entry_points() -> EntryPoints:
    from importlib.metadata import entry_points  # a command of our own does without

    return entry_points(group=ADDED)


def added(ctx: click.Context) -> dict[str, EntryPoint]:
    """What packages add to a group, by name: `synth` to eree, `cube.synth` to its group cube."""
    path: list[str] = []
    while ctx.parent is not None:
        path.insert(0, ctx.command.name or "")
        ctx = ctx.parent
    points = ((*point.name.rpartition("."), point) for point in _entry_points())
    return {name: point for group, _, name, point in points if group == ".".join(path)}


def _load(files: Iterable[str]) -> None:
    """Import the files of commands, which makes these known to their groups."""
    for name in files:
        import_module(f"eree.cli.{name}")


class Commands(Command, click.Group):
    """The commands of eree, and those that packages add to them, imported when asked for."""

    command_class = Command

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names of all commands, in alphabetical order."""
        _load(FILES)
        return sorted(self.commands.keys() | added(ctx).keys())

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of a name; for one of our own no entry point is read."""
        _load([ALONE] if cmd_name == ALONE else FILES)
        found = self.commands.get(cmd_name)
        if found is None and (point := added(ctx).get(cmd_name)):
            found = point.load()
        return found

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command that arguments name; what may be meant instead can be an added one."""
        try:
            return super().resolve_command(ctx, args)
        except click.NoSuchCommand as error:
            known = self.list_commands(ctx)
            raise click.NoSuchCommand(error.command_name, possibilities=known, ctx=ctx) from None

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command; click would answer an interrupt with an empty line."""
        try:
            return click.Group.invoke(self, ctx)
        except KeyboardInterrupt:
            raise click.Abort from None


@click.group(
    cls=Commands,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 80},
    examples=["eree demo", "eree COMMAND --help"],
)
@click.version_option(eree.__version__, prog_name="eree", message="%(prog)s %(version)s")
@click.option(
    *("-v", "--verbose"),
    is_flag=True,
    envvar="EREE_VERBOSE",
    help="Write every step, and when it began, to stderr.",
)
@click.pass_context
def cli(context: click.Context, verbose: bool) -> None:
    """Employment tables from linked employer-employee data.

    Exit status: 0 done, 1 the checked thing is faulty, 2 refused, 130 interrupted.

    \b
    Environment:
      EREE_LEDGER   the ledger of plan, release and cube protect
      EREE_VERBOSE  1: as --verbose
      EREE_CACHE    folder of kept certificates; empty: none are kept
      TMPDIR        folder of temporary files, which are removed
      SPARK_MASTER  the master of --engine spark
    """  # noqa: D301  # click leaves lines as they are after it
    context.meta[VERBOSE] = verbose
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


#: A password in an address, perhaps a mistyped one: of its user, or by its name.  It may hold
#: anything, so nothing that follows is shown.
_PASSWORD = re.compile(
    r"(://|(?<=postgres):/?|(?<=postgresql):/?)[^:@/]*:.+@.*|((?:ssl)?password\s*=).*",
    re.IGNORECASE | re.DOTALL,
)
_ADDRESS = re.compile(r"postgres(ql)?://.*", re.DOTALL)
_known: ContextVar[Mapping[str, str]] = ContextVar("_known", default={})  # noqa: B039  # read only


@contextmanager
def hidden(arguments: Sequence[str]) -> Iterator[list[str]]:
    """Arguments without their passwords; within it `with_password` knows them.

    Whatever an argument was meant for, it may come back in a sentence: a surplus one, a value that
    is none, a path that is not there.  Only the address of a ledger gets its password back.
    """
    shown = [_without(argument) for argument in arguments]
    known: dict[str, str] = {}
    for full, without in zip(arguments, shown, strict=True):
        found = _ADDRESS.search(full) if without != full else None
        if found and known.setdefault(_without(found[0]), found[0]) != found[0]:
            raise Refusal("two addresses with passwords are one too many; name one ledger")
    token = _known.set(known)
    try:
        yield shown
    finally:
        _known.reset(token)


def with_password(address: str) -> str:
    """The address of a ledger as it was given."""
    return _known.get().get(address, address)


def _without(argument: str) -> str:
    return _PASSWORD.sub(lambda found: f"{found[1] or found[2]}***", argument)
