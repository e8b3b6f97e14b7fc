"""What agents ask, asked from the command line: verify, changes, recall-context, memory."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kbgit.cli.verify import LONGEST, MOST_AT_ONCE
from kbgit.mcp.schemas import INPUTS
from tests.cli.running import PAGES, Kbgit, Published, new_home, write


@pytest.fixture(scope="module")
def remembering(tmp_path_factory: pytest.TempPathFactory) -> Kbgit:
    """A home with one base and one record of memory."""
    scratch = tmp_path_factory.mktemp("remembering")
    kbgit = new_home(scratch / "home")
    kbgit.run("base", "import", "--from", str(write(scratch / "handbook", PAGES)))
    kbgit.run("memory", "remember", "--project", "harbour", "--tag", "deploy", "A rollout on Friday needs consent.")
    return kbgit


def test_a_batch_is_one_that_the_api_takes() -> None:
    taken = INPUTS["verify_citations"]["properties"]["citations"]
    assert taken["maxItems"] >= MOST_AT_ONCE
    assert taken["items"]["maxLength"] == LONGEST


def test_citations_in_files_are_verified_with_their_places(published: Published, tmp_path: Path) -> None:
    old, new = published.heads
    standing, stale = f"knowledge:item_deploy@{old}#L5-L7", f"knowledge:item_deploy@{old}#L3-L3"
    pages = write(tmp_path / "docs", {"a.md": f"See `{standing}`.\n", "b.md": f"\n\n({stale}) and again {standing}\n"})
    result = published.kbgit.run("verify", "--in", str(pages), code=1)
    assert f"{pages}/a.md:1: exact {standing} → knowledge:item_deploy@{new}#L5-L7\n" in result.stdout
    assert f"{pages}/b.md:3: exact {standing}" in result.stdout
    assert f"{pages}/b.md:3: changed {stale} → knowledge:item_deploy@{new}#L3-L3\n" in result.stdout
    assert "    -Run `kubectl rollout` at noon.\n" in result.stdout
    assert result.stderr == "kbgit: note: 2 citations: 1 exact, 1 changed\n"
    assert "at noon" not in published.kbgit.run("verify", stale, "--no-differences", code=1).stdout


def test_verify_ends_with_0_where_everything_holds(published: Published, tmp_path: Path) -> None:
    current = f"knowledge:item_deploy@{published.heads[1]}#L3-L3"
    found = published.kbgit.json("verify", current)
    assert (found["holds"], found["counts"]) == (True, {"exact": 1})
    assert found["verdicts"][0]["places"] == []
    page = write(tmp_path, {"none.md": "Nothing is cited.\n"}) / "none.md"
    assert "no citation" in published.kbgit.run("verify", "--in", str(page)).stderr


def test_verify_without_citations_inspects_the_home(published: Published) -> None:
    assert "1 base inspected: sound" in published.kbgit.run("verify").stderr


def test_more_citations_than_a_batch_and_absurdly_long_ones_are_all_answered(
    published: Published, tmp_path: Path
) -> None:
    sha = published.heads[1]
    cited = [f"knowledge:item_deploy@{sha}#L1-L{last}" for last in range(1, MOST_AT_ONCE + 2)]
    cited.append(f"knowledge:{'x' * LONGEST}@{sha}")
    page = write(tmp_path, {"many.md": "\n".join(cited)}) / "many.md"
    found = published.kbgit.json("verify", "--in", str(page), code=1)
    assert [verdict["citation"] for verdict in found["verdicts"]] == cited
    assert [verdict["places"][0]["line"] for verdict in found["verdicts"]] == list(range(1, len(cited) + 1))
    assert found["verdicts"][-1]["reason"] == "malformed"


def test_changes_are_listed_by_section_with_what_to_cite(published: Published) -> None:
    old, new = published.heads
    shown = published.kbgit.run("changes", "--since-commit", old).stdout
    assert "changed  Production deployment  handbook/deploy/production.md" in shown
    assert f"knowledge:item_deploy@{new}#L1-L3" in shown
    by_citation = published.kbgit.json("changes", "--citation", f"knowledge:item_deploy@{old}#L3-L3")
    assert [change["knowledge_item_id"] for change in by_citation["changes"]] == ["item_deploy"]
    assert "nothing changed" in published.kbgit.run("changes", "--since-commit", new).stderr
    published.kbgit.run("changes", code=2)
    published.kbgit.run("changes", "--since-commit", old, "--since-time", "2026-11-30T12:00:00Z", code=2)


@pytest.mark.parametrize("spelling", ["--include_knowledge", "--include-knowledge"])
def test_recall_has_records_and_where_it_is_asked_knowledge(remembering: Kbgit, spelling: str) -> None:
    asked = ("recall-context", "--query", "rollout")
    both = remembering.json(*asked, spelling, "true")
    assert both["memory"][0]["project"] == "harbour"
    assert both["knowledge"][0]["knowledge_item_id"] == "item_deploy"
    assert remembering.json(*asked, spelling)["sources"]["knowledge"]["asked"] is True
    alone = remembering.run(*asked, spelling, "false", "--project", "harbour", "--kind", "knowledge", "--limit", "3")
    assert "A rollout on Friday needs consent." in alone.stdout
    assert "item_deploy" not in alone.stdout
    assert "knowledge was not asked: the request did not ask for it" in alone.stderr


def test_a_record_is_kept_listed_exported_and_forgotten(kbgit: Kbgit) -> None:
    made = kbgit.json("memory", "remember", "--project", "tides", "--title", "Low water", "Ask at *six*.")
    assert (made["author"], made["client"], made["space"]) == ("ada", "kbgit", "personal:ada")
    short = kbgit.json("memory", "remember", "--project", "tides", "--kind", "working", "--lasts", "8h", "Wet.")
    assert short["expires_at"] > short["created_at"]
    shown = kbgit.run("memory", "list", "--project", "tides", "--kind", "knowledge").stdout
    assert made["id"] in shown
    assert "Low water" in shown
    assert len(kbgit.json("memory", "list", "--limit", "2")["records"]) == 2
    assert "> Ask at *six*." in kbgit.run("memory", "export").stdout
    assert len(kbgit.json("memory", "export", "--project", "tides")["projects"][0]["records"]) == 2
    assert kbgit.run("memory", "forget", made["id"]).stdout == f"forgot {made['id']}\n"
    kbgit.run("memory", "forget", made["id"], code=1)
    assert kbgit.run("memory", "list", "--project", "tides", "--query", "six").stdout == "no such record\n"


def test_a_record_can_come_from_standard_input_in_utf_8(kbgit: Kbgit) -> None:
    ask = ("memory", "remember", "--project", "tides", "-")
    assert kbgit.process(*ask, stdin="Ebbe um sechs, größer als sonst.\n".encode()).returncode == 0
    assert "größer" in kbgit.json("memory", "list")["records"][0]["text"]
    refused = kbgit.process(*ask, stdin=b"\xff\xfe")
    assert (refused.returncode, refused.stderr) == (2, b"kbgit: standard input is not UTF-8\n")


def test_a_server_answers_as_the_home_does(published: Published) -> None:
    old, _ = published.heads
    questions = [
        ("verify", f"knowledge:item_deploy@{old}#L3-L3", "knowledge:nowhere"),
        ("changes", "--since-commit", old),
        ("changes", "--since-time", "yesterday"),
        ("recall-context", "--query", "velvet", "--include_knowledge", "false"),
        ("recall-context", "--query", "velvet", "--limit", "1000"),
        ("memory", "list", "--space", "team:nowhere"),
        ("memory", "forget", "mem_000000000000000000000000"),
    ]
    ask = published.kbgit.run
    alone = [ask(*question, "--json", code=None) for question in questions]
    with published.kbgit.server():
        served = [ask(*question, "--json", code=None) for question in questions]
        made = json.loads(ask("memory", "remember", "--project", "quay", "Served.", "--json").stdout)
        assert published.kbgit.json("memory", "list", "--project", "quay")["records"][0]["id"] == made["id"]
        assert "> Served." in ask("memory", "export", "--project", "quay").stdout
        ask("memory", "forget", made["id"])
    for question, first, second in zip(questions, alone, served, strict=True):
        assert (first.exit_code, first.stdout, first.stderr) == (second.exit_code, second.stdout, second.stderr), (
            question
        )
        assert json.loads(first.stdout)
