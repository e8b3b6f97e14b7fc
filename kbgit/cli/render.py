"""Answers as lines for people, made from the JSON of the API, whichever way it came."""

from __future__ import annotations

import re
from collections.abc import Iterator

import click

from kbgit.cli import terminal
from kbgit.cli.http_client import Json
from kbgit.cli.terminal import line, note

_SNIPPET_LINES = 3
_SHORT = 12
_BRIEF = 72
_HEADING = re.compile(r"\A#{1,6} [^\n]*\n")
_CONTEXT = 60  # characters kept before the first word that was asked for


# Search


def search_results(found: Json, query: str) -> Iterator[str]:
    """Each result: title and score, citation, where it is, and the beginning of what it says."""
    words = [word.casefold() for word in re.findall(r"\w+", query)]
    for index, result in enumerate(found["results"]):
        if index:
            yield ""
        yield from _result(result, words)
    if found["has_more"]:
        yield ""
        yield click.style("more: --offset shows the next page", dim=True)
    if "explain" in found:
        yield ""
        yield from _explanation("all", found["explain"])


def _result(result: Json, words: list[str]) -> Iterator[str]:
    score = f"{result['score']:.3f}"
    title = terminal.cut(line(result["title"]), terminal.width() - len(score) - 2)
    gap = " " * (terminal.width() - terminal.columns(title) - len(score))
    yield f"{click.style(title, bold=True)}{gap}{click.style(score, dim=True)}"
    yield click.style(line(result["citation"]), fg="cyan")
    # Below its own title a section's path need not begin with it again.
    section = [part for part in result["section"] if part != result["title"]]
    start, end = result["lines"]
    facts = [f"{result['base']}/{result['locator']}", f"lines {start}–{end}"]
    facts += [result["place"]["label"]] if "place" in result else []
    facts.append(" › ".join(section))
    facts.append(" ".join(f"#{tag}" for tag in result["tags"]))
    yield click.style(terminal.cut(" · ".join(line(fact) for fact in facts if fact), terminal.width()), dim=True)
    if result["content"]:
        yield from _snippet(result["content"], words)
    for passage in result.get("more_passages", ()):
        yield click.style(terminal.cut(f"  also {line(passage['citation'])}", terminal.width()), dim=True)
    if "explain" in result:
        yield from _explanation("", result["explain"])


def _snippet(content: str, words: list[str]) -> Iterator[str]:
    """A few lines of a passage, from shortly before the first word that was asked for, such words in bold."""
    # The heading is shown already, as the section.
    text = line(" ".join(_HEADING.sub("", content).split()))
    folded = text.casefold()
    places = [place for word in words if (place := folded.find(word)) >= 0] if len(folded) == len(text) else []
    first = min(places, default=0)
    if first > 2 * _CONTEXT:
        start = text.find(" ", first - _CONTEXT) + 1
        text = f"…{text[start if 0 < start <= first else first :]}"
    marked = re.compile("|".join(map(re.escape, sorted(words, key=len, reverse=True))) or r"(?!)", re.IGNORECASE)
    for row in terminal.wrapped(text, terminal.width() - 2, _SNIPPET_LINES):
        yield "  " + marked.sub(lambda hit: click.style(hit[0], bold=True), row)


def _explanation(of: str, explained: Json) -> Iterator[str]:
    for leg, facts in explained.items():
        shown = (
            ", ".join(f"{key} {_number(value)}" for key, value in facts.items()) if isinstance(facts, dict) else facts
        )
        yield click.style(f"  {of + ' ' if of else ''}{leg}: {shown}", dim=True)


def _number(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else "-" if value is None else str(value)


def search_notes(found: Json) -> None:
    """What a reader should know about the answer: that it is empty, lexical only, or behind."""
    if not found["results"]:
        note("nothing was found")
    if "fallback_reason" in found:
        note(f"ranked by words only, because {line(found['fallback_reason'])}")
    for text in found.get("notes", ()):
        note(line(text))
    for key, freshness in found["freshness"].items():
        if freshness.get("alarm"):
            note(f"{key}: {line(freshness['alarm'])}")
        elif freshness["published"] != freshness["indexed"]:
            note(f"{key} is being indexed, so its newest changes may be missing")
        elif found["mode_used"] != "lexical" and freshness["vectors"] < freshness["passages"]:
            note(f"{key}: {freshness['vectors']:,} of {freshness['passages']:,} passages have a vector yet")


# Items


def item_notes(found: Json) -> None:
    """What a reader of an item's text should know beside it."""
    if not found["is_current"]:
        note(f"this is revision {found['revision_number']}, not the current one")
    if found["status"] != "published":
        note(f"its status is {found['status']}")
    if found["base"]["status"] != "active":
        note(f"its base is {found['base']['status']}")


def resolved(found: Json) -> Iterator[str]:
    """A citation's facts, and the lines it cites."""
    lines = found.get("lines")
    yield click.style(line(found["title"]), bold=True)
    yield click.style(line(found["reference"]) + (f"#L{lines[0]}-L{lines[1]}" if lines else ""), fg="cyan")
    provenance = found["provenance"]
    yield from _facts(
        {
            "current": "yes" if found["is_current"] else "no, superseded",
            "status": found["status"],
            "revision": f"{found['revision_number']}, committed {provenance['committed_at']}",
            "author": provenance["author"],
            "published": f"{provenance['published_at']} by {provenance['pushed_by']} ({provenance['via']})",
            "base": f"{found['base']['space']}/{found['base']['slug']} ({found['base']['status']})",
            "file": found["locator"],
            "hash": found["content_hash"],
        }
    )
    if lines:
        yield ""
        yield from (f"  {terminal.harmless(text)}".rstrip() for text in found["excerpt"].split("\n"))


def _facts(facts: dict[str, object]) -> Iterator[str]:
    wide = max(map(len, facts))
    for name, value in facts.items():
        yield f"{click.style(name.ljust(wide), dim=True)}  {line(value)}"


def revisions(found: Json) -> Iterator[str]:
    """An item's history as a table."""
    rows = []
    for revision in found["revisions"]:
        provenance = revision["provenance"]
        state = "removed" if revision["removed"] else "current" if revision["is_current"] else revision["status"]
        message = terminal.cut(line((provenance["message"].splitlines() or [""])[0]), _BRIEF)
        rows.append(
            [
                *(str(revision["revision_number"]), revision["knowledge_revision_id"][:_SHORT], state),
                *(provenance["committed_at"], line(f"{provenance['pushed_by']} ({provenance['via']})"), message),
            ]
        )
    yield from terminal.table(rows, ("nr", "revision", "state", "committed", "published by", "message"))
    if found["cursor"] is not None:
        yield click.style("older ones: --limit shows more", dim=True)


def difference(found: Json) -> Iterator[str]:
    """A unified difference."""
    if not found["diff"]:
        yield click.style("the two files are equal", dim=True)
    for text in found["diff"].splitlines():
        shown = terminal.harmless(text)
        if text.startswith(("+++", "---", "diff ", "index ")):
            yield click.style(shown, bold=True)
        elif text.startswith(("+", "-", "@")):
            yield click.style(shown, fg={"+": "green", "-": "red", "@": "cyan"}[text[0]])
        else:
            yield shown


def items(found: Json) -> Iterator[str]:
    """The items of a base as a table."""
    rows = [
        [
            *(line(row["knowledge_item_id"]), row["status"], str(row["revision_number"])),
            *(line(row["locator"]), terminal.cut(line(row["title"]), _BRIEF)),
        ]
        for row in found["items"]
    ]
    if not rows:
        yield "no such item"
        return
    yield from terminal.table(rows, ("item", "status", "revisions", "locator", "title"))
    if found["cursor"] is not None:
        yield click.style("there are more: --limit shows them", dim=True)


def written(found: Json) -> Iterator[str]:
    """What became of a change: the citation to copy, and what the item is now."""
    yield click.style(line(found["reference"]), fg="cyan")
    yield f"{found['status']}, in {line(found['locator'])} of {found['receipt']['base']}"


def deleted(found: Json, *, dry_run: bool) -> Iterator[str]:
    """An item whose file is, or would be, gone."""
    what = f"{line(found['knowledge_item_id'])}, {line(found['locator'])}"
    if dry_run:
        yield f"would remove {what} of {found['base']['space']}/{found['base']['slug']}: {line(found['title'])}"
        yield f"{line(found['reference'])} would keep resolving"
    else:
        yield f"removed {what} of {found['receipt']['base']}; its pinned citations keep resolving"


# Bases


def bases(found: Json) -> Iterator[str]:
    """The bases as a table."""
    rows = [
        [
            *(row["key"], row["status"], str(row["items"].get("published", 0)), str(row["items"].get("draft", 0))),
            *(_freshness(row), terminal.cut(line(row["description"] or row["name"]), _BRIEF)),
        ]
        for row in found["bases"]
    ]
    if not rows:
        yield "no base yet; `kbgit base import --from DIRECTORY-OR-REPOSITORY` makes one"
        return
    yield from terminal.table(rows, ("base", "status", "published", "drafts", "index", "about"))


def _freshness(row: Json) -> str:
    freshness = row["freshness"]
    if freshness.get("alarm"):
        return "alarm"
    if freshness["published"] is None:
        return "empty"
    if freshness["published"] != freshness["indexed"]:
        return "behind"
    if freshness["vectors"] < freshness["passages"]:
        return f"{freshness['vectors']:,} of {freshness['passages']:,} vectors"
    return "up to date"


def base(found: Json) -> Iterator[str]:
    """One base, and the problems of its files."""
    yield click.style(line(found["name"]), bold=True)
    freshness = found["freshness"]
    facts: dict[str, object] = {
        "base": found["key"],
        "about": found["description"] or "-",
        "status": found["status"],
        "items": ", ".join(f"{count:,} {status}" for status, count in found["items"].items()),
        "head": freshness["published"] or "nothing is published yet",
        "index": f"{_freshness(found)}, {freshness['passages']:,} passages, {freshness['vectors']:,} with a vector",
    }
    if "admission" in found:
        facts |= {"admission": found["admission"], "default status": found["default_status"]}
        facts |= {"alarm": found["alarm"]} if found["alarm"] else {}
    yield from _facts(facts)
    problems = found.get("problems") or ()
    if problems:
        yield ""
        yield click.style(f"{len(problems)} problems, none of which hides the other files:", bold=True)
        yield from map(problem, problems)


def base_changed(found: Json) -> Iterator[str]:
    """What a base's settings are now, in a line."""
    about = f"; {line(found['description'])}" if found["description"] else ""
    yield f"{found['key']} is {found['status']}: {line(found['name'])}{about}"


def purge(found: Json) -> Iterator[str]:
    """What a permanent deletion took, or would take."""
    verb = "destroyed" if found["type"] == "base_purged" else "would destroy"
    amounts = [terminal.count(found[f"{what}s"], what) for what in ("item", "commit", "passage", "byte")]
    yield f"{verb} {found['key']}: {', '.join(amounts)}"


def problem(found: Json) -> str:
    """`path:line: what; mend`."""
    mend = f"; {line(found['mend'])}" if found["mend"] else ""
    return f"{line(found['path'])}:{found['line']}: {line(found['what'])}{mend}"


def status(found: Json, origin: str) -> Iterator[str]:
    """How things stand."""
    facts: dict[str, object] = {
        "kbgit": found["version"],
        "answered by": origin,
        "health": ", ".join(found["health"].get("reasons", [])) or "ready",
        "model": found["embedder"] + (f" ({found['embedding_problem']})" if found["embedding_problem"] else ""),
        "fresh": "yes" if found["fresh"] else "no, see below",
    }
    if found["documents"] is not None:
        facts["documents"] = ", ".join(f"{count} {state}" for state, count in found["documents"].items())
    if "home" in found:
        facts["disk free"] = megabytes(found["home"]["disk_free_bytes"])
        sizes = sorted(found["home"]["store_bytes"].items(), key=lambda entry: -entry[1])
        facts["stores"] = ", ".join(f"{name} {megabytes(size)}" for name, size in sizes if size)
    yield from _facts(facts)
    yield ""
    yield from bases(found)
    for row in found["bases"]:
        if row["freshness"].get("alarm"):
            yield click.style(f"{row['key']}: {line(row['freshness']['alarm'])}", fg="red")
        if row.get("problems"):
            yield f"{row['key']}: {len(row['problems'])} problems; `kbgit base show {row['key']}` lists them"


def megabytes(size: int) -> str:
    """A number of bytes, for people."""
    return f"{size / (1 << 30):,.1f} GB" if size >= 1 << 30 else f"{size / (1 << 20):,.1f} MB"
