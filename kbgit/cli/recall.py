"""`kbgit recall-context`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import click

from kbgit.cli import terminal
from kbgit.cli.client import reach
from kbgit.cli.errors import NO
from kbgit.cli.http_client import Json
from kbgit.cli.options import json_option, library_options, pass_session
from kbgit.cli.output import answer
from kbgit.cli.session import Session
from kbgit.cli.terminal import line, note

KINDS = ("knowledge", "working")


@click.command("recall-context", short_help="Recall what is known about a question.")
@click.option("--query", required=True, metavar="TEXT", help="What you are about to do or answer.")
@click.option(
    "--include_knowledge",
    "--include-knowledge",
    "include_knowledge",
    type=bool,
    is_flag=False,
    flag_value=True,
    metavar="true|false",
    help="Whether to look in the bases too.  [default: true]",
)
@click.option("--space", metavar="KEY", help="Only records of this space.")
@click.option("--project", metavar="NAME", help="Only records of this project.")
@click.option("--kind", type=click.Choice(KINDS), help="Only durable or only short-lived records.")
@click.option("--base", "bases", multiple=True, metavar="NAME", help="Knowledge of this base; several times: these.")
@click.option("--token-budget", type=int, metavar="N", help="About how many tokens the texts may have in all.")
@click.option("--limit", "-n", type=int, help="Most records, and most items, 1 to 50.  [default: 10 records, 5 items]")
@library_options
@json_option
@pass_session
def recall_context(session: Session, /, limit: int | None, as_json: bool, **fields: Any) -> None:  # noqa: ANN401
    """Recall what memory holds about a question, and what knowledge says beside it, with citations.

    Knowledge is looked in where the setting recall_knowledge is on and the token allows it; the answer says whether it
    was. Exit code 1 says that nothing was found.

    \b
    Examples:
      kbgit recall-context --query "how do we roll back" --include_knowledge true
      kbgit recall-context --query "deploys on Friday" --project harbour --include-knowledge false
      kbgit recall-context --query "style of answers" --token-budget 2000 --json
    """
    body = {name: value for name, value in fields.items() if value not in (None, ())}
    if "bases" in body:
        body["bases"] = list(body["bases"])
    if limit is not None:
        body |= {"memory_limit": limit, "knowledge_limit": limit}
    with reach(session) as client:
        found = client.recall(body)
    answer(found, _lines(found), as_json=as_json)
    is_found = bool(found["memory"] or found["knowledge"])
    if not as_json:
        _tell(found, is_found=is_found)
    if not is_found:
        raise click.exceptions.Exit(NO)


def _lines(found: Json) -> Iterator[str]:
    """Records, then items of knowledge: heading, origin, text."""
    for index, one in enumerate([*found["memory"], *found["knowledge"]]):
        if index:
            yield ""
        if one["source"] == "memory":
            yield click.style(line(one["title"] or one["id"]), bold=True)
            by = f"{one['author']} ({one['client']})" if one["client"] else one["author"]
            facts = f"memory {one['id']} · {one['space']}/{one['project']} · {one['kind']} · {one['created_at']} · {by}"
            yield click.style(line(facts), dim=True)
        else:
            yield click.style(line(one["title"]), bold=True)
            yield click.style(line(one["citation"]), fg="cyan")
        yield from (f"  {terminal.harmless(text)}".rstrip() for text in one["content"].splitlines())
        if one["is_cut"]:
            yield "  …"


def _tell(found: Json, *, is_found: bool) -> None:
    """What a reader should know about the answer: which sources it lacks, and why."""
    if not is_found:
        note("nothing was found")
    for name, source in found["sources"].items():
        if source["why_not"]:
            note(f"{name} was {'asked, but' if source['asked'] else 'not asked:'} {line(source['why_not'])}")
        elif source["left_out"]:
            note(f"{name}: {source['left_out']:,} more did not fit the budget")
    for text in found["notes"]:
        note(line(text))
