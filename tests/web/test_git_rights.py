"""Git as somebody who may read what is published and no more: a repository shows its drafts to whoever can fetch from it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.web.conftest import Library
from tests.web.serving import RUNBOOKS, WorkTree, git_url


def wanted(library: Library, what: str) -> str:
    """What to ask the runbooks for: by name, or by the id of a commit, of a draft's content."""
    head = library.heads[1]
    git = library.runtime.home.repository(RUNBOOKS).git
    return {
        "branch": "refs/heads/main",
        "HEAD": "HEAD",
        "commit": head,
        "draft": git.run("rev-parse", f"{head}:draft.md").decode().strip(),
        "log": "refs/kbgit/publications",
    }[what]


@pytest.fixture
def empty(tmp_path: Path) -> WorkTree:
    """A repository without an object."""
    work_tree = WorkTree(tmp_path)
    work_tree.git("init", "--quiet")
    return work_tree


def objects(work_tree: WorkTree) -> str:
    return work_tree.git("count-objects", "-v").output


@pytest.mark.parametrize("version", ["0", "2"])
@pytest.mark.parametrize("who", ["vera", "reader"])
@pytest.mark.parametrize("what", ["branch", "HEAD", "commit", "draft", "log"])
def test_who_may_not_fetch_gets_no_object_by_name_or_id(
    what: str, who: str, version: str, library: Library, empty: WorkTree
) -> None:
    url, protocol = git_url(library.url, library.people[who]), f"protocol.version={version}"
    before = objects(empty)
    fetched = empty.git("-c", protocol, "fetch", url, wanted(library, what), check=False)
    assert fetched.code != 0
    assert "you may read team:platform/runbooks, but not fetch it" in fetched.output
    assert objects(empty) == before
    if what != "log":  # which `ls-remote` shows to nobody
        listed = empty.git("-c", protocol, "ls-remote", url, check=False)
        assert listed.code != 0
        assert library.heads[1] not in listed.output


@pytest.mark.parametrize("version", ["0", "2"])
def test_who_may_fetch_does_so_by_name_and_never_gets_the_log(version: str, library: Library, empty: WorkTree) -> None:
    url, protocol = git_url(library.url, library.people["max"]), f"protocol.version={version}"
    empty.git("-c", protocol, "fetch", "--quiet", url, wanted(library, "branch"))
    assert empty.git("cat-file", "-t", wanted(library, "draft")).output == "blob\n"
    assert empty.git("-c", protocol, "fetch", url, wanted(library, "log"), check=False).code != 0


@pytest.mark.parametrize("who", ["olga", "root", "memory", "elsewhere"])
def test_who_may_not_see_a_base_is_told_that_there_is_none(who: str, library: Library, empty: WorkTree) -> None:
    for path in ("platform/runbooks.git", "~ada/notes.git", "platform/nothing.git"):
        listed = empty.git("ls-remote", git_url(library.url, library.people[who], path), check=False)
        assert listed.code != 0
        assert f"there is no base at {path}, or none that you may see" in listed.output.replace("\n", " ")
