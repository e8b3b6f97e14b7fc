"""Answers as text for a model: what kbgit vouches for line by line, what people wrote in frames.

Each function takes an answer of `kbgit.mcp.calls` and the frame of that answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from kbgit.mcp.framing import NOTICE, Frame, label, quoted
from kbgit.mcp.schemas import Json

Writer = Callable[[Json, Frame], Iterator[str]]


def as_text(name: str, answer: Json, frame: Frame) -> str:
    """The answer of the tool `name` as text."""
    return "\n".join(WRITERS[name](answer, frame))


def _search(answer: Json, frame: Frame) -> Iterator[str]:
    results = answer["results"]
    if not results:
        yield "Nothing was found. Other words may be; `mode` lexical finds exact symbols."
    else:
        yield f"{_count(results, 'result')}. {NOTICE}"
    for number, result in enumerate(results, 1):
        yield ""
        yield from _hit(f"{number}. ", result, frame)
    yield from _notes(answer)
    if answer["next_offset"] is not None:
        yield f"\nThere is more: ask again with offset {answer['next_offset']}."


def _hit(number: str, result: Json, frame: Frame) -> Iterator[str]:
    yield f"{number}citation: {quoted(result['citation'])}"
    yield f"base: {label(_base_key(result))}, path: {label(result['locator'])}"
    if "place" in result:
        yield f"place in the original: {label(result['place']['label'])}"
    yield (
        f"status: published and current, revision {result['revision_number']} of {result['published_at']}, "
        f"score {result['score']:.2f}"
    )
    yield frame.around(
        result["content"] or "",
        title=result["title"],
        section=" > ".join(result["section"]),
        tags=", ".join(result["tags"]),
    )
    for passage in result.get("more_passages", ()):
        yield f"also: {quoted(passage['citation'])}, score {passage['score']:.2f}"


def _item(answer: Json, frame: Frame) -> Iterator[str]:
    provenance = answer["provenance"]
    first, last = answer["lines"]
    yield f"citation: {quoted(answer['citation'])}"
    yield f"base: {label(_base_key(answer['base']))}, {answer['base']['status']}; path: {label(answer['locator'])}"
    current = "the current revision" if answer["is_current"] else "NOT the current revision"
    yield f"status: {answer['status']}, revision {answer['revision_number']}, {current}"
    yield (
        f"author: {label(provenance['author'])}, pushed by {label(provenance['pushed_by'])}, "
        f"published {provenance['published_at']}"
    )
    yield f"lines: {first} to {last} of {answer['line_count']}"
    yield NOTICE
    yield frame.around(answer["content"], title=answer["title"], tags=", ".join(answer["tags"]))
    if answer["is_cut"]:
        yield "The line is longer than an answer; this is its beginning."
    if answer["next_lines"]:
        yield f"The text goes on: ask again with lines {answer['next_lines']}."


def _history(answer: Json, frame: Frame) -> Iterator[str]:
    yield f"{_count(answer['revisions'], 'revision')} of {quoted(answer['knowledge_item_id'])}, newest first. {NOTICE}"
    for revision in answer["revisions"]:
        provenance = revision["provenance"]
        yield ""
        marks = [revision["status"], *(["current"] if revision["is_current"] else [])]
        marks += ["removed the item"] if revision["removed"] else []
        yield f"revision {revision['revision_number']} ({', '.join(marks)}): {quoted(revision['reference'])}"
        yield f"author: {label(provenance['author'])}, published {provenance['published_at']} via {provenance['via']}"
        yield frame.around(provenance["message"])
    yield from _next_page(answer)


def _verdicts(answer: Json, frame: Frame) -> Iterator[str]:
    counted = ", ".join(f"{count} {state}" for state, count in sorted(answer["counts"].items()))
    yield f"{_count(answer['verdicts'], 'citation')}: {counted}. {'All hold.' if answer['holds'] else 'Not all hold.'}"
    if any(verdict.get("differences") for verdict in answer["verdicts"]):
        yield NOTICE
    for verdict in answer["verdicts"]:
        reason = f" ({verdict['reason'].replace('_', ' ')})" if "reason" in verdict else ""
        now = verdict.get("current")
        cite = f"; cite now {quoted(now)}" if now and now != verdict["citation"] else ""
        quote = "; the quote is NOT what these lines say" if verdict.get("quote_matches") is False else ""
        yield f"{verdict['state']}{reason}: {quoted(verdict['citation'])}{cite}{quote}"
        for difference in verdict.get("differences", ()):
            yield frame.around(difference["diff"].rstrip("\n"), section=" > ".join(difference["section"]))


def _changes(answer: Json, frame: Frame) -> Iterator[str]:
    for base in answer["bases"]:
        yield f"base: {label(_base_key(base))}, from {base['from'] or 'the beginning'} to {base['to']}"
    yield f"{_count(answer['changes'], 'changed item')}. {NOTICE}" if answer["changes"] else "Nothing changed."
    for change in answer["changes"]:
        yield ""
        yield f"{change['kind']}: {quoted(change['reference'] or change['knowledge_item_id'])}"
        for section in change["sections"]:
            where = quoted(section["citation"]) if section["citation"] else "gone"
            yield f"section {section['kind']}: {where}"
            yield frame.around("", section=" > ".join(section["section"]) or "(before the first heading)")
    for text in answer.get("unknown", ()):
        yield f"unknown: {quoted(text)}"
    yield from _next_page(answer)


def _recall(answer: Json, frame: Frame) -> Iterator[str]:
    for source, report in answer["sources"].items():
        if report["why_not"]:
            yield f"{source}: {'asked, but' if report['asked'] else 'not asked:'} {label(report['why_not'])}"
        else:
            left = f", {report['left_out']} more left out by the budget" if report["left_out"] else ""
            yield f"{source}: asked, {report['count']} found{left}"
    if answer["memory"] or answer["knowledge"]:
        yield NOTICE
    for record in answer["memory"]:
        yield ""
        via = f" through {label(record['client'])}" if record["client"] else ""
        yield f"memory {record['id']}: {record['kind']} of {label(record['space'] + '/' + record['project'])}"
        yield f"author: {label(record['author'])}{via}, {record['created_at']}, score {record['score']:.2f}"
        cut = "\n[cut]" if record["is_cut"] else ""
        yield frame.around(record["content"], title=record["title"], tags=", ".join(record["tags"])) + cut
    for item in answer["knowledge"]:
        yield ""
        yield from _hit("knowledge ", item, frame)
    yield from _notes(answer)


def _remembered(answer: Json, _: Frame) -> Iterator[str]:
    until = f", until {answer['expires_at']}" if answer["expires_at"] else ""
    yield f"Remembered as {answer['id']} in {label(answer['space'] + '/' + answer['project'])}{until}."


def _forgotten(answer: Json, _: Frame) -> Iterator[str]:
    yield f"Forgotten: {quoted(answer['id'])}."


WRITERS: Mapping[str, Writer] = {
    "search_knowledge": _search,
    "read_knowledge": _item,
    "knowledge_history": _history,
    "verify_citations": _verdicts,
    "knowledge_changes": _changes,
    "recall_context": _recall,
    "remember": _remembered,
    "forget": _forgotten,
}


def _base_key(row: Json) -> str:
    return f"{row['space']}/{row.get('slug') or row['base']}"


def _count(rows: list[Json], noun: str) -> str:
    return f"{len(rows)} {noun}{'' if len(rows) == 1 else 's'}"


def _notes(answer: Json) -> Iterator[str]:
    if answer.get("fallback_reason"):
        yield f"\nSearched by words alone: {label(answer['fallback_reason'])}"
    for note in answer.get("notes", ()):
        yield f"\nNote: {label(note)}"
    yield from _behind(answer.get("freshness", {}))


def _behind(freshness: Json) -> Iterator[str]:
    behind = [base for base, state in freshness.items() if state["published"] != state["indexed"]]
    if behind:
        listed = ", ".join(label(base) for base in behind)
        yield f"\nNote: not everything published is searchable yet in {listed}; ask again in a moment for the rest."


def _next_page(answer: Json) -> Iterator[str]:
    if answer["cursor"] is not None:
        yield f"\nThere is more: ask again with cursor {quoted(answer['cursor'])}."
