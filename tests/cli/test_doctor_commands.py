"""`kbgit verify` of a home, and `kbgit doctor`: with a server and without."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from kbgit.home import Home
from tests.cli.running import PAGES, Kbgit, new_home, push, write
from tests.upkeep.furnishing import an_object_of, change_rows, cut, without_log

BASE = "personal:ada/handbook"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    scratch = tmp_path_factory.mktemp("made")
    kbgit = new_home(scratch / "home")
    kbgit.run("base", "import", "--from", str(write(scratch / "handbook", PAGES)))
    kbgit.run("memory", "remember", "Ask Ada before a deploy.", "--project", "harbour")
    kbgit.run("reindex")
    return kbgit.home


@pytest.fixture
def kbgit(made: Path, tmp_path: Path) -> Kbgit:
    shutil.copytree(made, tmp_path / "home")
    return Kbgit(tmp_path / "home")


@pytest.fixture
def served(kbgit: Kbgit) -> Iterator[Kbgit]:
    with kbgit.server():
        yield kbgit


def codes(found: dict[str, list[dict[str, str]]], what: str = "findings") -> list[str]:
    return [finding["code"] for finding in found[what]]


def spoil(kbgit: Kbgit) -> None:
    """Make the catalogue say what Git does not."""
    change_rows(kbgit.home / "catalogue.sqlite", "UPDATE revisions SET number = 99 WHERE item_id = 'item_deploy'")


def test_a_sound_home_is_sound_with_and_without_a_server(kbgit: Kbgit) -> None:
    for options in ((), ("--full",), ("--base", "handbook")):
        found = kbgit.json("verify", *options)
        assert found["sound"] is True
        assert found["findings"] == []
        assert found["bases"] == [BASE]
    with kbgit.server():
        assert kbgit.json("verify", "--full")["findings"] == []
        told = kbgit.run("doctor")
        assert "1 base inspected: sound" in told.stderr
        assert told.stdout == ""


def test_what_is_pushed_while_a_home_is_verified_is_no_finding(served: Kbgit, tmp_path: Path) -> None:
    repository = str(served.home / "repositories" / "~ada" / "handbook.git")
    for number in range(3):
        page = f"---\nstatus: published\n---\n# Page {number}\n"
        push(repository, tmp_path / f"writer {number}", {f"page{number}.md": page})
        assert served.json("verify", "--full")["sound"] is True


def test_verify_says_what_is_wrong_and_where(kbgit: Kbgit) -> None:
    spoil(kbgit)
    found = kbgit.json("verify", code=1)
    assert codes(found) == ["catalogue_differs"]
    finding = found["findings"][0]
    assert (finding["base"], finding["where"], finding["severity"], finding["derived"]) == (
        *(BASE, "catalogue.sqlite"),
        *("fault", True),
    )
    assert "item_deploy" in finding["what"]
    told = kbgit.run("verify", code=1)
    assert "catalogue_differs" in told.stdout
    assert "1 fault found" in told.stderr


def test_verify_with_citations_is_what_it_was(kbgit: Kbgit) -> None:
    spoil(kbgit)
    head = Home.at(kbgit.home).repository(Home.at(kbgit.home).base_keys()[0]).head()
    assert kbgit.json("verify", f"knowledge:item_deploy@{head}")["holds"] is True
    kbgit.run("verify", f"knowledge:item_deploy@{head}", "--full", code=2)
    kbgit.run("verify", "--server", "http://127.0.0.1:9", code=2)
    kbgit.run("verify", "--base", "nowhere", code=1)


def test_doctor_explains_and_changes_nothing_unless_told(kbgit: Kbgit) -> None:
    spoil(kbgit)
    told = kbgit.run("doctor", code=1).stdout
    assert "The catalogue says something else than Git does." in told
    assert "kbgit doctor --mend" in told
    dry = kbgit.json("doctor", "--mend", "--dry-run", code=1)
    assert [(step["action"], step["target"]) for step in dry["steps"]] == [("rebuild_base", BASE)]
    assert dry["mended"] is False
    assert kbgit.json("verify", code=1)["sound"] is False


def test_doctor_mends_and_looks_again(kbgit: Kbgit) -> None:
    before = kbgit.json("search", "rollout")
    spoil(kbgit)
    done = kbgit.json("doctor", "--mend")
    assert (done["mended"], done["sound"], done["problems"], done["remaining"]) == (True, True, [], [])
    assert kbgit.json("verify", "--full")["findings"] == []
    assert kbgit.json("search", "rollout") == before


def test_doctor_has_the_server_mend_while_it_answers(served: Kbgit) -> None:
    before = served.json("search", "rollout")
    spoil(served)
    (served.home / "hooks" / "pre-receive").unlink()
    done = served.json("doctor", "--mend")
    assert [step["action"] for step in done["steps"]] == ["install_hooks", "rebuild_base"]
    assert done["sound"] is True
    assert served.json("search", "rollout") == before
    assert "Mended." not in served.run("doctor", "--mend").stdout, "nothing was left to mend"


def test_doctor_says_that_the_server_must_stop(served: Kbgit) -> None:
    cut(served.home / "vectors.sqlite")
    done = served.json("doctor", "--mend", code=1)
    assert [step["obstacle"] for step in done["steps"]] == ["stop the server first"]
    assert codes(done, "remaining") == ["vector_cache_damaged"]


def test_doctor_leaves_the_truth_alone_and_says_to_restore_it(kbgit: Kbgit) -> None:
    repository = kbgit.home / "repositories" / "~ada" / "handbook.git"
    an_object_of(repository).unlink()
    done = kbgit.json("doctor", "--mend", code=1)
    assert codes(done) == ["repository_damaged"]
    assert done["steps"] == []
    assert "backup" in done["findings"][0]["mend"]


def test_doctor_mends_what_it_can_beside_what_it_cannot(kbgit: Kbgit) -> None:
    without_log(kbgit.home, Home.at(kbgit.home).base_keys()[0])
    (kbgit.home / "hooks" / "pre-receive").unlink()
    done = kbgit.json("doctor", "--mend", code=1)
    assert codes(done) == ["publication_log_missing", "hooks_wrong"]
    assert codes(done, "remaining") == ["publication_log_missing"]
    assert (kbgit.home / "hooks" / "pre-receive").is_file()


def test_accounts_that_cannot_be_read_are_named_not_made_anew(kbgit: Kbgit) -> None:
    accounts = kbgit.home / "accounts.sqlite"
    accounts.write_bytes(b"noise" * 4000)
    done = kbgit.json("doctor", "--mend", code=1)
    assert codes(done) == ["accounts_damaged"]
    assert accounts.read_bytes() == b"noise" * 4000


def test_where_there_is_no_home_there_is_trouble(tmp_path: Path) -> None:
    for command in ("verify", "doctor"):
        Kbgit(tmp_path / "nothing").run(command, code=3)
