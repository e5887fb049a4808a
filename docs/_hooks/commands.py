"""Puts the help of every command into its page while the site is built, so that none is kept."""

from collections.abc import Iterator

import click

from eree.cli.exit_status import cli

PLACE = "<!-- help of every command -->"
#: The width at which click writes on a terminal of 80 columns.
WIDTH = 78


def on_page_markdown(markdown: str, **_: object) -> str:
    """Replace the one line that asks for it by a section for each command."""
    if PLACE not in markdown:
        return markdown
    root = click.Context(cli, info_name="eree", terminal_width=WIDTH, **cli.context_settings)
    return markdown.replace(PLACE, "\n\n".join(_sections(root)))


def _sections(context: click.Context) -> Iterator[str]:
    """The help of a command, and of those that it lists."""
    path, command = context.command_path, context.command
    level = "#" * min(path.count(" ") + 2, 3)
    yield f"{level} {path}\n\n```text\n{command.get_help(context)}\n```"
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            if (found := command.get_command(context, name)) and not found.hidden:
                settings = found.context_settings
                yield from _sections(click.Context(found, context, name, **settings))
