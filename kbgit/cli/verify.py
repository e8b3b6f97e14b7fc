"""`kbgit verify`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import click

from kbgit.cli import terminal
from kbgit.cli.client import Client, reach
from kbgit.cli.errors import NO
from kbgit.cli.homes import home_of
from kbgit.cli.http_client import Json
from kbgit.cli.lazy import load
from kbgit.cli.options import json_option, library_options, pass_session
from kbgit.cli.output import answer
from kbgit.cli.session import Session
from kbgit.cli.soundness import finding_lines, inspected, refuse_server, summary
from kbgit.cli.terminal import line, note

MOST_AT_ONCE = 200
"""Citations of one request: far fewer than the API takes, so that each is answered in good time."""
LONGEST = 4096
"""Characters of a citation that the API takes; what is longer in a file is malformed."""

_COLOURS = {"exact": "green", "moved": "green", "changed": "yellow", "superseded": "yellow"}

Places = Mapping[str, Sequence[tuple[Path, int]]]
"""Each citation once, in the order of their first places: (file, line); one given on the command line has none."""


@click.command(short_help="Check whether what citations cite still stands, or a whole home.")
@click.argument("citations", nargs=-1, metavar="[CITATION]…")
@click.option(
    "--in",
    "paths",
    multiple=True,
    type=click.Path(exists=True, path_type=Path),
    metavar="PATH",
    help="Every citation in this file, or in the files of this directory; several times: these.",
)
@click.option("--no-differences", is_flag=True, help="Leave out what changed.")
@click.option(
    "--base", "bases", multiple=True, metavar="NAME", help="Of the home, only this base; several times: these."
)
@click.option("--full", is_flag=True, help="Of the home, every object, revision and posting, not samples.")
@library_options
@json_option
@pass_session
def verify(
    session: Session,
    citations: Sequence[str],
    paths: Sequence[Path],
    no_differences: bool,
    bases: Sequence[str],
    full: bool,
    as_json: bool,
) -> None:
    """Say of each citation whether what it cites still stands: those given, and those found in files.

    A citation is exact, moved (and where it stands now), changed, superseded, archived, deleted or unknown. Exit code 0
    says that all are exact or moved, 1 that some are not: made for checks of documents.

    Without citations and files, the home itself is verified, whether or not a server runs: everything is computed from
    Git anew and compared with what is stored. Exit code 0 says that it is sound, 1 that something is wrong, which `kbgit
    doctor` explains and mends.

    \b
    Examples:
      kbgit verify
      kbgit verify --full --base runbooks
      kbgit verify 'knowledge:item_runbook_deploy@0b1c…#L12-L31'
      kbgit verify --in docs --in README.md --no-differences
      kbgit verify --in docs --json
    """
    if not citations and not paths:
        _verify_home(session, bases, full=full, as_json=as_json)
        return
    if bases or full:
        raise click.UsageError("--base and --full are for verifying the home, without citations")
    places = _places(citations, paths)
    with reach(session) as client:
        found = _verdicts(client, places, differences=not no_differences)
    answer(found, _lines(found), as_json=as_json)
    if not as_json:
        note(_counted(found) if places else "no citation with a revision was found")
    if not found["holds"]:
        raise click.exceptions.Exit(NO)


def _verify_home(session: Session, bases: Sequence[str], *, full: bool, as_json: bool) -> None:
    refuse_server(session, "verify without citations")
    found = inspected(home_of(session), bases, full=full)
    answer(found.as_json(), finding_lines(found.findings, explain=False), as_json=as_json)
    if not as_json:
        note(summary(found))
    if not found.is_sound:
        raise click.exceptions.Exit(NO)


def _places(citations: Sequence[str], paths: Sequence[Path]) -> Places:
    places: dict[str, list[tuple[Path, int]]] = {text: [] for text in citations}
    if paths:
        # Not imported above, because the library's package brings those of the index.
        citations_below = load("kbgit.library.citing:citations_below")
        for found in (found for path in paths for found in citations_below(path)):
            there = places.setdefault(found.text, [])
            if (found.path, found.line) not in there[-1:]:
                there.append((found.path, found.line))
    return places


def _verdicts(client: Client, places: Places, *, differences: bool) -> Json:
    """The API's answer on all citations; each verdict has the `places` at which its citation was found."""
    verdicts: dict[str, Json] = {
        text: {"citation": text, "state": "unknown", "holds": False, "reason": "malformed"}
        for text in places
        if len(text) > LONGEST
    }
    asked = [text for text in places if text not in verdicts]
    for start in range(0, len(asked), MOST_AT_ONCE):
        some = asked[start : start + MOST_AT_ONCE]
        told = client.verify({"citations": some, "differences": differences})
        verdicts |= dict(zip(some, told["verdicts"], strict=True))
    return {
        "type": "citation_verdicts",
        "holds": all(verdict["holds"] for verdict in verdicts.values()),
        "counts": dict(Counter(verdict["state"] for verdict in verdicts.values())),
        "verdicts": [
            {**verdicts[text], "places": [{"path": str(path), "line": number} for path, number in there]}
            for text, there in places.items()
        ],
    }


def _lines(found: Json) -> Iterator[str]:
    """`file:line: state citation`, by place, as compilers do; then what changed."""
    for verdict in found["verdicts"]:
        state = click.style(verdict["state"], fg=_COLOURS.get(verdict["state"], "red"))
        reason = f" ({line(verdict['reason'])})" if "reason" in verdict else ""
        current = verdict.get("current")
        now = f" → {line(current)}" if current and current != verdict["citation"] else ""
        for place in verdict["places"] or [None]:
            where = f"{line(place['path'])}:{place['line']}: " if place else ""
            yield f"{where}{state}{reason} {line(verdict['citation'])}{now}"
        for difference in verdict.get("differences", ()):
            yield click.style(f"  {line(' › '.join(difference['section']))}".rstrip(), dim=True)
            yield from (f"    {terminal.harmless(text)}" for text in difference["diff"].splitlines())
            if difference.get("truncated"):
                yield "    …"


def _counted(found: Json) -> str:
    counted = ", ".join(f"{count:,} {state}" for state, count in found["counts"].items())
    return f"{terminal.count(len(found['verdicts']), 'citation')}: {counted}"
