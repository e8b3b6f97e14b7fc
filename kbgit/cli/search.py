"""`kbgit search`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from kbgit.cli import render
from kbgit.cli.client import reach
from kbgit.cli.errors import NO
from kbgit.cli.options import json_option, library_options, pass_session
from kbgit.cli.output import answer
from kbgit.cli.session import Session

_MODES = ("hybrid", "rrf", "semantic", "lexical")
_CONTENTS = ("passage", "full", "none")


@click.command(short_help="Find passages, with their citations.")
@click.argument("query", nargs=-1, required=True)
@click.option("--mode", type=click.Choice(_MODES), help="How to rank.  [default: hybrid]")
@click.option("--alpha", type=float, metavar="0…1", help="hybrid: weight of the lexical score.  [default: 0.5]")
@click.option("--k", type=int, help="rrf: the rank constant.  [default: 60]")
@click.option("--limit", "-n", type=int, help="Most results, 1 to 100.  [default: 10]")
@click.option("--offset", type=int, help="Results to skip.  [default: 0]")
@click.option("--base", "bases", multiple=True, metavar="NAME", help="Search this base; several times: these.")
@click.option("--space", "spaces", multiple=True, metavar="KEY", help="Search this space; several times: these.")
@click.option(
    "--tag", "tags", multiple=True, metavar="TAG", help="Only items with this tag; several times: all of them."
)
@click.option("--locator", metavar="PREFIX", help="Only items whose path begins so.")
@click.option("--metadata", multiple=True, metavar="KEY=VALUE", help="Only items whose front matter says so.")
@click.option("--exclude", multiple=True, metavar="WORDS", help="A word or phrase that must not occur.")
@click.option("--min-score", type=float, metavar="0…1", help="Only results with at least this score.")
@click.option("--content", type=click.Choice(_CONTENTS), help="What to show of an item.  [default: passage]")
@click.option("--wait-for", metavar="COMMIT", help="Wait until this commit is indexed.")
@click.option("--explain", is_flag=True, help="Say where the scores come from.")
@click.option("--embed", is_flag=True, help="Without a server: first give every passage its vector.")
@library_options
@json_option
@pass_session
def search(session: Session, /, query: Sequence[str], embed: bool, as_json: bool, **fields: Any) -> None:  # noqa: ANN401
    """Find the passages that answer QUERY, each with the citation that will always lead back to it.

    The query is any text in any language. Double quotes within it ask for an exact phrase (in a shell, put single
    quotes around it all). A query that begins with a dash comes after --. Exit code 1 says that nothing was found.

    \b
    Examples:
      kbgit search how do we roll back a deployment
      kbgit search '"connection refused"' --base runbooks --tag database
      kbgit search --mode lexical ERR-1234 --json
      kbgit search -- --include-knowledge
    """
    body = {"query": " ".join(query), **_given(fields)}
    with reach(session, embed=embed) as client:
        found = client.search(body)
    answer(found, render.search_results(found, body["query"]), as_json=as_json)
    if not as_json:
        render.search_notes(found)
    if not found["results"]:
        raise click.exceptions.Exit(NO)


def _given(fields: dict[str, Any]) -> dict[str, Any]:
    """The fields of the API's request that were given; what was not has the API's default."""
    pairs = {}
    for text in fields.pop("metadata"):
        key, equals, value = text.partition("=")
        if not equals or not key:
            raise click.BadParameter(f"{text!r} is not of the form KEY=VALUE", param_hint="--metadata")
        pairs[key] = value
    given = {name: value for name, value in fields.items() if value not in (None, (), False)}
    return {name: list(value) if isinstance(value, tuple) else value for name, value in given.items()} | (
        {"metadata": pairs} if pairs else {}
    )
