"""Commands that are loaded when they are used, so that `kbgit --help` needs nothing but click."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any, ClassVar, NamedTuple

import click
from click.shell_completion import CompletionItem


class Entry(NamedTuple):
    """Where a command is (`package.module:name`), and its line in the list of commands."""

    place: str
    summary: str


def load(place: str) -> Any:  # noqa: ANN401 - whatever is there
    """What `package.module:name` names."""
    module, _, name = place.partition(":")
    return getattr(import_module(module), name)


class LazyGroup(click.Group):
    """A group that knows its commands' names and summaries, and imports a command only to run it or show its help."""

    entries: ClassVar[Mapping[str, Entry]] = {}

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Names, in the order in which they are introduced."""
        return list(self.entries)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command, imported."""
        entry = self.entries.get(cmd_name)
        if entry is None:
            return None
        command = load(entry.place)
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The list of commands, without importing any."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, entry.summary) for name, entry in self.entries.items()])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Commands and options that begin with `incomplete`, without importing any command."""
        named = [
            CompletionItem(name, help=entry.summary)
            for name, entry in self.entries.items()
            if name.startswith(incomplete)
        ]
        return named + click.Command.shell_complete(self, ctx, incomplete)
