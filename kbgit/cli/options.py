"""Options that many commands share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from kbgit.cli.session import Session

_Command = TypeVar("_Command", bound=Callable[..., Any])

pass_session = click.make_pass_decorator(Session, ensure=True)


def _note_home(context: click.Context, _: click.Parameter, value: Path | None) -> None:
    if value is not None:
        context.ensure_object(Session).given_home = value


def _note_server(context: click.Context, _: click.Parameter, value: str | None) -> None:
    if value is not None:
        if not value.startswith(("http://", "https://")):
            raise click.BadParameter(f"{value!r} is no address; write http://HOST:PORT or https://HOST")
        context.ensure_object(Session).given_server = value.rstrip("/")


def home_option(command: _Command) -> _Command:
    """--home, before or after the command's name."""
    return click.option(
        "--home",
        type=click.Path(path_type=Path, file_okay=False),
        expose_value=False,
        callback=_note_home,
        metavar="DIRECTORY",
        help="The home to use.  [default: KBGIT_HOME, else ~/.kbgit]",
    )(command)


def server_option(command: _Command) -> _Command:
    """--server, before or after the command's name."""
    return click.option(
        "--server",
        expose_value=False,
        callback=_note_server,
        metavar="URL",
        help="A server to use instead of a home, with the token in KBGIT_TOKEN.  [default: KBGIT_SERVER]",
    )(command)


def library_options(command: _Command) -> _Command:
    """--home and --server, of commands that ask a library."""
    return home_option(server_option(command))


json_option = click.option("--json", "as_json", is_flag=True, help="Answer in JSON.")
base_option = click.option("--base", metavar="NAME", help="The base to look in: a slug, or space/slug.")
expect_option = click.option(
    "--expect", metavar="SHA", help="Change it only if this is its revision.  [default: whichever it is now]"
)
