"""`kbgit reindex`."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

import click

from kbgit.base import BaseKey
from kbgit.cli import terminal
from kbgit.cli.base_names import base_key
from kbgit.cli.client import Client, RunningServer, running_server, server_client, server_or_home
from kbgit.cli.errors import TROUBLE
from kbgit.cli.homes import home_of
from kbgit.cli.http_client import Json
from kbgit.cli.options import home_option, json_option, pass_session
from kbgit.cli.output import answer
from kbgit.cli.session import Session
from kbgit.errors import HomeProblem
from kbgit.home import Home
from kbgit.rebuilding import RebuildOrders

_POLL_SECONDS = 0.2


@click.command(short_help="Bring the index up to date, or build it anew.")
@click.argument("bases", nargs=-1, metavar="[BASE]…")
@click.option("--full", "--force", "full", is_flag=True, help="Derive everything from Git anew.")
@home_option
@json_option
@pass_session
def reindex(session: Session, bases: Sequence[str], full: bool, as_json: bool) -> None:
    """Bring the index of the given bases (default: all) to what is published, every passage with its vector.

    With --full the catalogue and the index of these bases are derived from Git anew; vectors of passages that stay the
    same are kept. What was there goes on answering until the new is complete, and changes places with it at once. A
    running server does the work, by itself or as this command orders it, and the command waits for it.

    \b
    Examples:
      kbgit reindex
      kbgit reindex --full runbooks
    """
    home = home_of(session)
    keys = [base_key(home, name) for name in bases] or home.base_keys()
    reached = server_or_home(session, home)
    if not isinstance(reached, RunningServer):
        with reached as opened:
            problems = opened.bring_to_head(keys, full=full)
            rows = _rows(opened.status(), keys, problems)
    else:
        problems = rebuild_by_server(home, keys) if full else {}
        rows = _await_server(server_client(home, reached), keys, problems)
    answer({"type": "reindexed", "full": full, "bases": rows}, map(_line, rows), as_json=as_json)
    if any(row["problem"] for row in rows):
        raise click.exceptions.Exit(TROUBLE)


def rebuild_by_server(home: Home, keys: Sequence[BaseKey]) -> dict[BaseKey, str]:
    """Have the home's server derive these bases anew, and wait for it. Returns what is wrong with which.

    Raises `HomeProblem` if the server ends meanwhile.
    """
    orders = RebuildOrders(home.path)
    waiting = {orders.place(key): key for key in keys}
    problems: dict[BaseKey, str] = {}
    progress = terminal.ProgressLine()
    try:
        while True:
            for order in list(waiting):
                if (problem := orders.answer(order)) is not None:
                    key = waiting.pop(order)
                    problems |= {key: problem} if problem else {}
            if not waiting:
                return problems
            progress.count("bases derived anew", len(keys) - len(waiting), len(keys))
            if running_server(home) is None:
                raise HomeProblem("the server ended before it had derived everything anew; run this again")
            time.sleep(_POLL_SECONDS)
    finally:
        progress.wipe()


def _await_server(client: Client, keys: Sequence[BaseKey], problems: Mapping[BaseKey, str]) -> list[Json]:
    """Wait until the server has done what it does anyway; a base with an alarm is not waited for."""
    progress = terminal.ProgressLine()
    while True:
        rows = _rows(client.status(), keys, problems)
        if all(row["problem"] or row["done"] for row in rows):
            progress.wipe()
            return rows
        vectors, passages = (sum(row[what] or 0 for row in rows) for what in ("vectors", "passages"))
        progress.count("passages embedded", vectors, passages)
        time.sleep(_POLL_SECONDS)


def _rows(told: Json, keys: Sequence[BaseKey], problems: Mapping[BaseKey, str]) -> list[Json]:
    """How far each base is, from a library's status."""
    found = {base["key"]: base for base in told["bases"]}
    return [_row(key, found.get(str(key)), told, problems.get(key)) for key in keys]


def _row(key: BaseKey, base: Json | None, told: Json, problem: str | None) -> Json:
    if base is None:  # the owner of the home, who asks, is not in its space
        return {"base": str(key), "head": None, "passages": None, "vectors": None, "done": True, "problem": problem}
    freshness = base["freshness"]
    is_embedded = told["embedder"] == "none" or freshness["vectors"] == freshness["passages"]
    return {
        "base": base["key"],
        "head": freshness["indexed"],
        "passages": freshness["passages"],
        "vectors": freshness["vectors"],
        "done": freshness["published"] == freshness["indexed"] and is_embedded,
        "problem": problem or freshness.get("alarm") or (None if is_embedded else told["embedding_problem"]),
    }


def _line(row: Json) -> str:
    if row["passages"] is None:
        text = f"{row['base']}: the owner of the home is not in its space, so how far it is is not told"
    else:
        head = (row["head"] or "nothing")[:12]
        text = f"{row['base']} at {head}: {row['passages']:,} passages, {row['vectors']:,} with a vector"
    return f"{text}; {terminal.line(row['problem'])}" if row["problem"] else text
