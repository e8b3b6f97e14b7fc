"""Tools as MCP lists and calls them: the contract's terms, the schemas, and answers in both forms."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mcp_types import CallToolResult, TextContent, Tool, ToolAnnotations

from kbgit.errors import KbgitError
from kbgit.mcp.calls import Agent, Calls
from kbgit.mcp.contract import ToolTerms, contract, scope_refusal
from kbgit.mcp.framing import NOTICE, Frame, as_meant, label, visible_json
from kbgit.mcp.schemas import INPUTS, OUTPUTS, Json
from kbgit.mcp.texts import as_text

DESCRIPTIONS = {
    "search_knowledge": (
        "Search the team's published knowledge: runbooks, specifications, design documents, standards. Finds current "
        "passages only. Cite what you use by its `citation`; `read_knowledge` shows the text around it."
    ),
    "read_knowledge": (
        "Read an item as it is now (`item_id`), or exactly what a citation cites, which stays readable for ever. Long items "
        "come in parts: `next_lines` says what to ask for next."
    ),
    "knowledge_history": "List the revisions of an item, newest first, with author, time and message of each.",
    "verify_citations": (
        "Check citations before you rely on them again: each is exact, moved (with its new place), changed (with what "
        "changed), superseded, archived, deleted or unknown."
    ),
    "knowledge_changes": (
        "See what changed since you last looked (a commit, a time, or the citations you used), by item and section, and read "
        "only that again."
    ),
    "recall_context": (
        "Recall what you and your team asked to be remembered about a question and, where allowed, what knowledge says "
        "beside it. Call it at the start of a conversation and before decisions. `sources` says what was asked and what not."
    ),
    "remember": (
        "Keep a fact, decision or preference for later conversations, of this and of other clients. Only what the user would "
        "want kept; never secrets."
    ),
    "forget": "Remove a record of memory for good, by the id that `recall_context` gives.",
}


def exposed(agent: Agent) -> list[ToolTerms]:
    """The tools that the agent may call: exposed in its profile, with a scope that the token has."""
    return [
        terms
        for name, terms in contract().tools.items()
        if name in agent.profile.tools and terms.missing_scope(agent.caller) is None
    ]


def described(terms: ToolTerms, query_max_chars: int) -> Tool:
    """A tool for a list of tools."""
    schema: Json = INPUTS[terms.name]
    if "query" in schema["properties"]:
        query = {**schema["properties"]["query"], "maxLength": query_max_chars}
        schema = {**schema, "properties": {**schema["properties"], "query": query}}
    return Tool(
        name=terms.name,
        title=terms.title,
        description=DESCRIPTIONS[terms.name],
        input_schema=schema,
        output_schema=OUTPUTS[terms.name],
        annotations=ToolAnnotations(
            title=terms.title,
            read_only_hint=not terms.writes,
            destructive_hint=terms.destructive,
            idempotent_hint=terms.idempotent,
            open_world_hint=False,
        ),
    )


def call(calls: Calls, name: str, arguments: object, agent: Agent) -> CallToolResult:
    """Call a tool that the agent's profile exposes. A failure is an answer that says what to do about it."""
    terms = contract().tools[name]
    try:
        lacking = terms.missing_scope(agent.caller)
        if lacking is not None:
            raise scope_refusal(lacking)
        answer = calls.by_name[name](as_meant(arguments or {}), agent)
    except KbgitError as error:
        return failure(error)
    return answered(name, answer)


def answered(name: str, answer: Json) -> CallToolResult:
    """An answer as text in a frame, and as JSON in which nothing is hidden."""
    structured = visible_json(answer)
    if "notice" in OUTPUTS[name]["properties"]:
        structured = {"type": structured["type"], "notice": NOTICE, **structured}
    return CallToolResult(
        content=[TextContent(type="text", text=as_text(name, answer, Frame()))], structured_content=structured
    )


def failure(error: KbgitError) -> CallToolResult:
    """An error as the result of a tool: its code, what is wrong, and the way out."""
    told = visible_json(error.as_json())
    lines = [f"{error.code}: {label(error.message)}"]
    way = _WAYS_OUT.get(error.code)
    if way is not None:
        told["error"]["way_out"] = way
        lines.append(way)
    known = error.details.get("known") or error.details.get("bases")
    if isinstance(known, Sequence):
        lines.append("Known: " + ", ".join(label(one) for one in known))
    content: list[Any] = [TextContent(type="text", text="\n".join(lines))]
    return CallToolResult(content=content, structured_content=told, is_error=True)


_WAYS_OUT = {
    "invalid_request": "Mend the field that is named and call again.",
    "invalid_citation": "A citation is knowledge:<item-id>@<40 hex>, with #L<from>-L<to> for lines; copy it from a result.",
    "base_not_found": "Leave `bases` out to search every base that you may see; results name theirs.",
    "space_not_found": "Leave `space` out for every space that you may see.",
    "item_not_found": "Find the item with search_knowledge and use the `knowledge_item_id` of a result.",
    "revision_not_found": "knowledge_history lists the revisions; without `revision` the current one is read.",
    "ambiguous_item": "Name one of the bases in `base`, or read by a citation, which is exact.",
    "base_archived": "Its citations still resolve: read by `citation`.",
    "item_not_published": "Only its citations resolve; knowledge_history lists its revisions.",
    "item_deleted": "Its citations still resolve; knowledge_history lists its revisions.",
    "knowledge_runtime_disabled": "Knowledge is switched off on this server. Memory works: recall_context, remember, forget.",
    "forbidden": "Ask the user for a token with the right that is named; do not try again with this one.",
    "unauthenticated": "The token is no longer valid. Ask the user to make a new one: `kbgit token create`.",
    "timed_out": "Search without `wait_for`, or wait and ask again.",
    "not_found": "recall_context gives the ids of the records there are.",
    "too_large": "Shorten the text, or split it; a long text is an item for a base, not a record.",
    "home_problem": "This is for the operator of the server; its log has the details.",
    "index_failure": "This is for the operator of the server; `kbgit status` shows how things stand.",
    "internal_error": "This is a fault in kbgit; its log has the details.",
}
