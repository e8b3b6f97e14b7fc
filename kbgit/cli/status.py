"""`kbgit status`."""

from __future__ import annotations

import click

from kbgit.cli import render
from kbgit.cli.client import reach
from kbgit.cli.errors import NO
from kbgit.cli.options import json_option, library_options, pass_session
from kbgit.cli.output import answer
from kbgit.cli.session import Session


@click.command(short_help="Show how things stand: bases, index, alarms.")
@click.option("--check", is_flag=True, help="Exit with 1 unless every base is indexed, embedded and without alarm.")
@library_options
@json_option
@pass_session
def status(session: Session, check: bool, as_json: bool) -> None:
    """Show how things stand: what answers, the model, and for each base its items, index, alarms and problems.

    \b
    Examples:
      kbgit status
      kbgit status --check --json
    """
    with reach(session) as client:
        found = client.status()
        lines = list(render.status(found, client.origin))
    answer(found, lines, as_json=as_json)
    if check and not found["fresh"]:
        raise click.exceptions.Exit(NO)
