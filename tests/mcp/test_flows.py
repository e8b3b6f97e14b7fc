"""What people do with agents, from the first request to the last."""

from __future__ import annotations

import json

import pytest
from mcp import Client as McpClient
from mcp_types import CallToolResult

from kbgit.access import Scope
from kbgit.assemble import open_runtime
from kbgit.home import Home
from kbgit.web.server import application
from tests.mcp.connecting import MODERN, Served, asked, over_http
from tests.web.serving import RUNBOOKS, SERVER_ENVIRONMENT, Client, WorkTree, published, running, until


def ask(served: Served, token: str, name: str, **arguments: object) -> CallToolResult:
    """One call of a new session."""

    async def call(client: McpClient) -> CallToolResult:
        return await client.call_tool(name, arguments)

    return asked(over_http(served.url, token, MODERN), call)


def test_a_preference_saved_in_one_chat_is_recalled_in_a_new_one(served: Served) -> None:
    token = served.token("max", Scope.MEMORY_READ, Scope.MEMORY_WRITE, profile="chatgpt-public")
    kept = ask(served, token, "remember", text="Answer in British English.", project="preferences", tags=["style"])
    recalled = ask(served, token, "recall_context", query="which English shall I use").structured_content
    assert kept.structured_content["id"] in [record["id"] for record in recalled["memory"]]
    assert recalled["sources"]["knowledge"]["asked"] is False


def test_a_decision_recorded_in_one_agent_is_recalled_in_the_next_before_an_edit(served: Served) -> None:
    editor, terminal = served.token("max", profile="cursor-plugin"), served.token("max")
    decision = "Retries use exponential backoff with jitter, at most five times."
    ask(served, editor, "remember", text=decision, project="harbour-api", title="Retries")
    recalled = ask(served, terminal, "recall_context", query="retries in the client", project="harbour-api")
    record = recalled.structured_content["memory"][0]
    assert record["content"] == decision
    assert (record["author"], record["title"]) == ("max", "Retries")


def test_a_team_memory_is_attributed_reviewed_exported_and_deleted(served: Served) -> None:
    member, owner = served.token("max", profile="cursor-plugin"), served.token("ada")
    kept = ask(
        served, member, "remember", text="The staging key rotates on Mondays.", project="review", space="team:platform"
    ).structured_content
    reviewer = Client(served.url, owner)
    listed = reviewer.get("/api/v1/memory?space=team:platform&project=review").json["records"]
    assert [(one["id"], one["author"]) for one in listed] == [(kept["id"], "max")]
    exported = reviewer.get("/api/v1/memory/export?space=team:platform&project=review&format=markdown").body.decode()
    assert "> The staging key rotates on Mondays." in exported
    assert "author: max" in exported
    outsider = ask(served, served.token("olga"), "recall_context", query="staging key", project="review")
    assert outsider.structured_content["memory"] == []
    ask(served, owner, "forget", id=kept["id"])
    after = reviewer.get("/api/v1/memory?space=team:platform&project=review").json["records"]
    assert after == []


@pytest.mark.parametrize("mend", [True, False])
def test_a_citation_given_by_an_agent_is_verified_by_a_colleague_after_three_edits(home: Home, mend: bool) -> None:
    runtime = open_runtime(home)
    runtime.start()
    repository = str(RUNBOOKS.repository_path(home.repositories))
    work = WorkTree(home.path.parent / "colleague")
    work.path.mkdir()
    work.git("clone", "--quiet", repository, ".")
    rule = "Undo it with `--previous`."
    try:
        with running(application(runtime, SERVER_ENVIRONMENT)) as url:
            served = Served(url, runtime, ("", ""))
            until(lambda: runtime.library.status(runtime.accounts.principal("ada")).is_fresh)
            question = {"query": "undo --previous", "mode": "lexical"}
            found = ask(served, served.token("max"), "search_knowledge", **question).structured_content
            hit = found["results"][0]
            assert rule in hit["content"]
            offset = hit["content"].split("\n").index(rule)
            line = hit["lines"][0] + offset
            citation = f"{hit['reference']}#L{line}-L{line}"
            bodies = [
                f"Call the harbour.\n\nThen wait.\n\n## Rollback\n\n{rule}\n",
                f"## Rollback\n\n{rule}\n\n## Afterwards\n\nTell everyone.\n",
                f"## Before\n\nBreathe.\n\nTwice.\n\n## Rollback\n\n{rule if mend else 'Redeploy the last release.'}\n",
            ]
            for number, body in enumerate(bodies):
                work.write({"deploy.md": published("Deploy", body, id="item_deploy")}, f"Edit {number}")
                work.git("push", "--quiet", repository, "HEAD:main")
            told = ask(served, served.token("ada"), "verify_citations", citations=[citation]).structured_content
            verdict = told["verdicts"][0]
            assert verdict["state"] == ("moved" if mend else "changed")
            assert told["holds"] is mend
            if mend:
                now = ask(served, served.token("ada"), "read_knowledge", citation=verdict["current"])
                assert now.structured_content["content"] == rule
            else:
                assert "Redeploy the last release." in json.dumps(verdict["differences"])
            then = ask(served, served.token("ada"), "read_knowledge", citation=citation)
            assert then.structured_content["content"] == rule
    finally:
        runtime.stop()
