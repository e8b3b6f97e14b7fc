"""What agents ask without MCP: citations verified, what changed, memory, recall. The same calls answer the tools of MCP."""

from __future__ import annotations

from flask import Response

from kbgit.errors import InvalidRequest
from kbgit.mcp.calls import Agent, Calls
from kbgit.mcp.contract import contract
from kbgit.memory import MemoryKind, ProjectKey
from kbgit.web.answers import answer, json_response
from kbgit.web.api.blueprints import knowledge_blueprint, page_limit, signed_in, signed_in_blueprint
from kbgit.web.fields import json_object
from kbgit.web.incoming import json_body, parameters, runtime

citations = knowledge_blueprint("citations")
memory = signed_in_blueprint("memory")

_FORMATS = ("json", "markdown")


def _calls() -> Calls:
    home = runtime()
    return Calls(home.home.settings, home.library, home.memory, home.recall)


def _agent() -> Agent:
    caller = signed_in()
    return Agent(caller, contract().profile_of(caller), client=caller.profile or "")


# Citations


@citations.post("/citations/verify")
def verify_citations() -> Response:
    """What became of what each citation cites."""
    parameters()
    return json_response(_calls().verify_citations(json_body(), _agent()))


@citations.get("/knowledge/changes")
def list_changes() -> Response:
    """What changed since a commit or a time."""
    given = parameters("since_commit", "since_time", "base", "cursor", "limit")
    asked = {name: value for name, value in given.items() if name not in ("base", "limit")}
    bases = [given["base"]] if "base" in given else []
    return json_response(_calls().knowledge_changes({**asked, "bases": bases, "limit": page_limit(given)}, _agent()))


@citations.post("/knowledge/changes")
def list_changes_of_citations() -> Response:
    """The same, also since some citations."""
    parameters()
    return json_response(_calls().knowledge_changes(json_body(), _agent()))


# Memory


@memory.post("/memory")
def remember() -> Response:
    """Keep a record."""
    parameters()
    return json_response(_calls().remember(json_body(), _agent()), 201)


@memory.get("/memory")
def list_records() -> Response:
    """A page of records."""
    given = parameters("space", "project", "kind", "query", "cursor", "limit")
    page = runtime().memory.records(
        signed_in(),
        space=given.get("space"),
        project=given.get("project"),
        kind=_kind(given.get("kind")),
        query=given.get("query", ""),
        cursor=given.get("cursor"),
        limit=page_limit(given),
    )
    return answer(page)


@memory.get("/memory/export")
def export_memory() -> Response:
    """Everything that is remembered, of all that the caller may see or of one space or project."""
    given = parameters("space", "project", "format")
    wanted = given.get("format", "json")
    if wanted not in _FORMATS:
        raise InvalidRequest(f"parameter `format` must be one of {', '.join(_FORMATS)}", {"parameter": "format"})
    export = runtime().memory.export(signed_in(), space=given.get("space"), project=given.get("project"))
    if wanted == "json":
        return answer(export)
    return Response(export.as_markdown().encode(), content_type="text/markdown; charset=utf-8")


@memory.get("/memory/projects")
def list_projects() -> Response:
    """The projects that records are kept of."""
    given = parameters("space")
    projects = runtime().memory.projects(signed_in(), space=given.get("space"))
    return json_response({"type": "memory_projects", "projects": [project.as_json() for project in projects]})


@memory.post("/memory/documents")
def link_document() -> Response:
    """Link a document to a project."""
    parameters()
    body = json_object(required=("space", "project", "reference"))
    key = ProjectKey(body.text("space") or "", body.text("project") or "")
    return answer(runtime().memory.link(key, body.text("reference") or "", signed_in()))


@memory.delete("/memory/documents")
def unlink_document() -> Response:
    """Remove a link; the document stays as it is."""
    given = parameters(required=("space", "project", "reference"))
    key = ProjectKey(given["space"], given["project"])
    return answer(runtime().memory.unlink(key, given["reference"], signed_in()))


@memory.delete("/memory/<record_id>")
def forget(record_id: str) -> Response:
    """Remove a record."""
    parameters()
    return json_response(_calls().forget({"id": record_id}, _agent()))


@memory.post("/recall")
def recall() -> Response:
    """What is remembered about a question, and what knowledge says beside it."""
    parameters()
    return json_response(_calls().recall_context(json_body(), _agent()))


def _kind(text: str | None) -> MemoryKind | None:
    if text is None:
        return None
    if text not in {kind.value for kind in MemoryKind}:
        known = ", ".join(kind.value for kind in MemoryKind)
        raise InvalidRequest(f"parameter `kind` must be one of {known}", {"parameter": "kind"})
    return MemoryKind(text)
