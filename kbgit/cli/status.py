"""`kbgit status`."""

from __future__ import annotations

import shutil

import click

from kbgit.cli import render
from kbgit.cli.client import Client, reach, running_server
from kbgit.cli.errors import NO
from kbgit.cli.homes import home_of
from kbgit.cli.http_client import Json
from kbgit.cli.options import json_option, library_options, pass_session
from kbgit.cli.output import answer
from kbgit.cli.paging import first
from kbgit.cli.session import Session
from kbgit.documents.contract import State
from kbgit.errors import Forbidden

_SHOWN = (State.QUEUED, State.EXTRACTING, State.FAILED)


@click.command(short_help="Show how things stand: server, bases, index, alarms, documents, disk.")
@click.option("--check", is_flag=True, help="Exit with 1 unless every base is indexed, embedded and without alarm.")
@click.option("--machine", is_flag=True, help="In JSON, add the home's server, disk and stores.")
@library_options
@json_option
@pass_session
def status(session: Session, check: bool, machine: bool, as_json: bool) -> None:
    """Show how things stand: what answers, its health, the model, documents on their way, the home's disk and stores, and
    for each base its items, index, alarms and problems.

    In JSON it is the same whoever answers; what only this machine's home tells is added by --machine.

    \b
    Examples:
      kbgit status
      kbgit status --check --json
      kbgit status --machine --json
    """
    with reach(session) as client:
        found = {**client.status(), "health": client.health(), "documents": _documents(client)}
        local = {} if session.server else _of_this_machine(session)
        lines = list(render.status({**found, **local}, client.origin))
    answer({**found, **local} if machine else found, lines, as_json=as_json)
    if check and not found["fresh"]:
        raise click.exceptions.Exit(NO)


def _documents(client: Client) -> Json | None:
    """How many documents wait, are extracted and failed, of those that the caller may see; None for who may see none."""

    def count(state: str) -> int:
        return len(first(lambda cursor, most: client.documents(None, state, cursor, most), "documents")["documents"])

    try:
        return {state.value: count(state.value) for state in _SHOWN}
    except Forbidden:  # the token is for something else
        return None


def _of_this_machine(session: Session) -> Json:
    """The home's server, its disk and its stores: what only whoever has the home can see."""
    home = home_of(session)
    server = running_server(home)
    return {
        "server": {"url": server.url, "pid": server.pid} if server else None,
        "home": {
            "path": str(home.path),
            "disk_free_bytes": shutil.disk_usage(home.path).free,
            "store_bytes": home.store_bytes(),
        },
    }
