from __future__ import annotations

import pytest

from tests.cli.running import DEPLOY, Published

CONTENT = DEPLOY.split("---\n", 2)[2]


def test_read_prints_the_content_as_it_is_in_git(published: Published) -> None:
    done = published.kbgit.process("read", "item_deploy", "--revision", published.heads[0])
    assert done.stdout.decode() == CONTENT
    assert b"not the current one" in done.stderr
    assert "in the morning" in published.kbgit.run("read", "item_deploy").stdout


def test_read_takes_an_abbreviated_revision(published: Published) -> None:
    assert published.kbgit.run("read", "item_deploy", "--revision", published.heads[0][:8]).stdout == CONTENT


def test_read_prints_the_lines_that_are_asked_for(published: Published) -> None:
    assert published.kbgit.run("read", "item_deploy", "--lines", "5-7").stdout.splitlines()[0] == "## Rollback"
    assert published.kbgit.json("read", "urlaub", "--lines", "3")["excerpt"] == "Dreißig Tage im Jahr. 年假 auch."


@pytest.mark.parametrize("lines", ["7-5", "0", "a-b", "1-"])
def test_impossible_lines_are_wrong_usage(published: Published, lines: str) -> None:
    published.kbgit.run("read", "item_deploy", "--lines", lines, code=2)


def test_read_takes_a_citation_and_prints_its_lines(published: Published) -> None:
    citation = f"knowledge:item_deploy@{published.heads[0]}#L3-L3"
    assert published.kbgit.run("read", citation).stdout == "Run `kubectl rollout` at noon.\n"


def test_a_citation_names_its_revision_itself(published: Published) -> None:
    citation = f"knowledge:item_deploy@{published.heads[0]}"
    published.kbgit.run("read", citation, "--revision", published.heads[0], code=2)


def test_a_draft_is_no_answer_but_a_pinned_one_is(published: Published) -> None:
    assert "`kbgit history ITEM`" in published.kbgit.run("read", "handbook/draft", code=1).stderr
    assert "velvet" in published.kbgit.run("read", "handbook/draft", "--revision", published.heads[0]).stdout


def test_history_lists_revisions_newest_first(published: Published) -> None:
    found = published.kbgit.json("history", "item_deploy")
    assert [row["knowledge_revision_id"] for row in found["revisions"]] == list(published.heads)[::-1]
    lines = published.kbgit.run("history", "item_deploy").stdout.splitlines()
    assert lines[1].split()[:3] == ["2", published.heads[1][:12], "current"]
    assert "ada (import)" in lines[1]
    assert lines[2].endswith("Write the first pages")


def test_history_says_when_there_is_more(published: Published) -> None:
    shown = published.kbgit.run("history", "item_deploy", "--limit", "1").stdout
    assert len(shown.splitlines()) == 3
    assert "--limit" in shown


@pytest.mark.parametrize("form", ["two", "range", "abbreviated"])
def test_diff_shows_what_changed(published: Published, form: str) -> None:
    old, new = published.heads
    arguments = {"two": (old, new), "range": (f"{old}..{new}",), "abbreviated": (f"{old[:7]}..{new[:9]}",)}[form]
    shown = published.kbgit.run("diff", "item_deploy", *arguments).stdout
    assert "-Run `kubectl rollout` at noon.\n+Run `kubectl rollout` in the morning.\n" in shown


@pytest.mark.parametrize("arguments", [("abcd",), ("a..",), ("a", "b", "c")])
def test_diff_needs_two_revisions(published: Published, arguments: tuple[str, ...]) -> None:
    published.kbgit.run("diff", "item_deploy", *arguments, code=2)


def test_a_revision_that_is_none_of_the_items_is_a_no(published: Published) -> None:
    assert "`kbgit history ITEM`" in published.kbgit.run("diff", "item_deploy", "00000", "11111", code=1).stderr


def test_resolve_says_what_is_cited_and_whether_it_is_current(published: Published) -> None:
    old, new = published.heads
    shown = published.kbgit.run("resolve", f"knowledge:item_deploy@{old}#L3-L3").stdout
    assert "no, superseded" in shown
    assert "at noon" in shown
    assert published.kbgit.json("resolve", f"knowledge:item_deploy@{new}")["is_current"] is True


def test_resolve_refuses_what_is_no_citation(published: Published) -> None:
    published.kbgit.run("resolve", "item_deploy", code=2)
