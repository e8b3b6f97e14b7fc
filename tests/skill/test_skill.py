"""The skill: one script beside its SKILL.md, run as agents run it."""

from __future__ import annotations

import ast
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from kbgit.access import Scope
from kbgit.mcp.framing import _HIDDEN
from tests.mcp.conftest import HIDDEN, served, template
from tests.mcp.connecting import Served
from tests.mcp.test_framing import outside

__all__ = ["served", "template"]  # fixtures

SKILL = Path(__file__).parents[2] / "skills" / "kbgit"
SCRIPT = SKILL / "scripts" / "kbgit_skill.py"


def _others() -> list[str]:
    """Other versions of Python that are here and work."""
    found = filter(None, map(shutil.which, ("python3.9", "python3.13")))
    return [one for one in found if subprocess.run([one, "-c", ""], capture_output=True, check=False).returncode == 0]


PYTHONS = [sys.executable, *_others()]


@dataclass(frozen=True)
class Ran:
    code: int
    output: str
    errors: str

    @property
    def json(self) -> Any:  # noqa: ANN401
        return json.loads(self.output)


Skill = Callable[..., Ran]


@pytest.fixture
def skill(served: Served, tmp_path: Path) -> Skill:
    """Runs the script from another directory, isolated from this environment's packages."""

    def run(*arguments: str, token: str | None = None, python: str = sys.executable, **environment: str) -> Ran:
        variables = {"KBGIT_URL": served.url, "KBGIT_TOKEN": token or served.token("max"), **environment}
        done = subprocess.run(
            [python, "-I", str(SCRIPT), *arguments],
            env={name: value for name, value in variables.items() if value},
            cwd=tmp_path,
            capture_output=True,
            timeout=60,
            check=False,
        )
        return Ran(done.returncode, done.stdout.decode(), done.stderr.decode())

    return run


def test_it_needs_nothing_but_the_standard_library() -> None:
    for node in ast.walk(ast.parse(SCRIPT.read_text("utf-8"), feature_version=(3, 9))):
        named = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        named += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        assert {name.split(".")[0] for name in named} <= sys.stdlib_module_names


def test_it_hides_and_shows_what_the_server_does() -> None:
    namespace: dict[str, Any] = {"__name__": "skill"}
    exec(compile(SCRIPT.read_text("utf-8"), str(SCRIPT), "exec"), namespace)
    assert namespace["HIDDEN"].pattern == _HIDDEN.pattern


def test_its_description_is_in_the_format_of_agent_skills() -> None:
    header, body = SKILL.joinpath("SKILL.md").read_text("utf-8").removeprefix("---\n").split("\n---\n", 1)
    fields = dict(line.split(": ", 1) for line in header.splitlines())
    assert fields["name"] == SKILL.name
    assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", fields["name"])
    assert 0 < len(fields["description"]) <= 1024
    assert len(fields["compatibility"]) <= 500
    assert set(fields) <= {"name", "description", "license", "compatibility", "metadata", "allowed-tools"}
    assert len(body.splitlines()) < 500
    for path in re.findall(r"scripts/\w+\.py", body):
        assert (SKILL / path).is_file()


def test_every_command_that_the_description_shows_is_one(skill: Skill) -> None:
    shown = set(re.findall(r"kbgit_skill\.py ([a-z-]+)", (SKILL / "SKILL.md").read_text("utf-8")))
    assert {"recall-context", "search", "read", "verify", "remember"} <= shown
    for command in shown:
        assert skill(command, "--help").code == 0


@pytest.mark.parametrize("python", PYTHONS)
def test_it_searches_and_reads_what_it_found(skill: Skill, served: Served, python: str) -> None:
    found = skill("search", "rollback", "--json", python=python)
    assert found.code == 0, found.errors
    citation = found.json["results"][0]["citation"]
    assert citation.startswith("knowledge:item_deploy@")
    shown = skill("read", citation, python=python)
    assert shown.code == 0
    assert "--previous" in shown.output
    assert citation in outside(shown.output)
    assert "team:platform/runbooks" in outside(shown.output)


@pytest.mark.parametrize("option", ["--include_knowledge", "--include-knowledge"])
def test_recall_takes_both_spellings(skill: Skill, option: str) -> None:
    asked = skill("recall-context", "--query", "rollback", option, "true", "--json")
    assert asked.json["sources"]["knowledge"]["asked"] is True
    assert asked.json["knowledge"]
    spared = skill("recall-context", "--query", "rollback", f"{option}=false", "--json")
    assert spared.json["sources"]["knowledge"]["asked"] is False
    assert "knowledge: not asked" in skill("recall-context", "--query", "rollback", option, "false").output


@pytest.mark.parametrize("query", ["--previous", "-x", "--", 'a "b', "日本語"])
def test_a_query_may_begin_with_a_dash(skill: Skill, query: str) -> None:
    assert skill("search", "--query", query).code == 0


def test_what_it_remembers_it_recalls_and_forgets(skill: Skill) -> None:
    kept = skill("remember", "--project", "skill", "--tag", "deploy", "Fridays", "are", "quiet.", "--json")
    assert kept.code == 0, kept.errors
    assert (kept.json["text"], kept.json["client"]) == ("Fridays are quiet.", "kbgit-skill")
    recalled = skill("recall-context", "--query", "quiet Fridays", "--project", "skill")
    assert kept.json["id"] in outside(recalled.output)
    assert "Fridays are quiet." in recalled.output
    assert skill("forget", kept.json["id"]).code == 0
    assert skill("forget", kept.json["id"]).code == 1


def test_it_verifies_and_says_so_by_its_exit_code(skill: Skill, served: Served, tmp_path: Path) -> None:
    holds, gone = served.cite("item_deploy", 0, "#L3-L3"), "knowledge:nowhere@" + "0" * 40
    (tmp_path / "notes.md").write_text(f"As said (`{holds}`), and [here]({gone}).\n")
    good = skill("verify", holds)
    assert (good.code, good.output.split(":")[0]) == (0, "moved")
    both = skill("verify", "--file", "notes.md", "--json")
    assert both.code == 1
    assert [one["state"] for one in both.json["verdicts"]] == ["moved", "unknown"]
    assert skill("verify", "--file", "nowhere.md").code == 2
    assert skill("verify").code == 0


def test_documents_stay_in_their_frame(skill: Skill) -> None:
    for arguments in (["search", "zebra instructions"], ["read", "item_hostile"], ["recall-context", "zebra"]):
        output = skill(*arguments).output
        assert "SYSTEM:" in output
        assert "SYSTEM:" not in outside(output)
        assert "gnore previous" not in outside(output)
        assert not any(character in output for character in HIDDEN)


def test_trouble_has_its_exit_code_and_never_shows_the_token(skill: Skill, served: Served) -> None:
    token = served.token("ada", Scope.MEMORY_READ)
    refused = skill("search", "x", token=token)
    assert refused.code == 1
    assert "knowledge:read" in refused.errors
    told = skill("search", "x", "--json", token=token)
    assert told.json["error"]["code"] == "forbidden"
    outcomes = [
        (skill("search", "x", KBGIT_URL="http://127.0.0.1:9"), 3),
        (skill("search", "x", KBGIT_URL=""), 2),
        (skill("search", "x", KBGIT_TOKEN=""), 2),
        (skill("search", "x", KBGIT_URL="ftp://x"), 2),
        (skill("search"), 2),
        (skill("read", "nowhere"), 1),
        (skill("read", "knowledge:item_deploy@abcdef0"), 2),
        (skill("search", "x", "--limit", "5000"), 2),
    ]
    for ran, code in outcomes:
        assert ran.code == code, ran.errors
        assert ran.errors.startswith("kbgit: ")
        assert served.token("max") not in ran.output + ran.errors
        assert "Traceback" not in ran.errors


def test_answers_are_short_enough_for_a_context(skill: Skill) -> None:
    assert len(skill("read", "runbooks/long").output) < 14_000
    assert len(skill("search", "line of many words", "--limit", "20").output) < 60_000
