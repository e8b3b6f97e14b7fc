"""A home with people in it, made once and copied for each test."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from kbgit.access import Role, Scope
from kbgit.assemble import Runtime, open_runtime
from kbgit.home import Home
from kbgit.web.server import application
from tests.web.described import DescribedClient
from tests.web.serving import NOTES, RUNBOOKS, SERVER_ENVIRONMENT, People, WorkTree, published, running, until


@dataclass(frozen=True)
class Template:
    """What tests start from; `head` is the commit published in the runbooks."""

    home: Home
    people: People
    work_tree: WorkTree
    head: str


@pytest.fixture(scope="session")
def template(tmp_path_factory: pytest.TempPathFactory) -> Template:
    """A home in which one item is published.

    ada owns the platform team, kim administers it, max is a member, vera a viewer; olga is in no team. root administers
    the home.
    """
    directory = tmp_path_factory.mktemp("template")
    home = Home.create(directory / "home")
    for key in (RUNBOOKS, NOTES):
        home.create_repository(key)
    people = People(home.accounts())
    users = ("ada", "kim", "max", "vera", "olga", "root")
    for user in users:
        people.accounts.add_user(user, "test", administrator=user == "root")
    team = people.accounts.add_team("platform", "ada", "test")
    people.accounts.set_member(team, "kim", Role.ADMIN, "test")
    people.accounts.set_member(team, "max", Role.MEMBER, "test")
    people.accounts.set_member(team, "vera", Role.VIEWER, "test")
    for user in users:
        people.add_token(user, user)
    people.add_token("reader", "max", Scope.KNOWLEDGE_READ)
    people.add_token("memory", "max", Scope.MEMORY_READ)
    people.add_token("elsewhere", "max", bases=["team:platform/other"])
    people.accounts.close()
    work_tree = WorkTree(directory / "work")
    work_tree.path.mkdir()
    work_tree.git("init", "--quiet", "--initial-branch=main")
    head = work_tree.write({"deploy.md": published("Deploy")})
    work_tree.git("push", "--quiet", str(RUNBOOKS.repository_path(home.repositories)), "main")
    return Template(home, people, work_tree, head)


def copied_home(template: Template, directory: Path, **settings: Any) -> Home:  # noqa: ANN401
    """The template's home, below `directory`."""
    shutil.copytree(template.home.path, directory / "home", symlinks=True)
    home = Home.at(directory / "home")
    for key in (RUNBOOKS, NOTES):
        home.configure_repository(home.repository(key))
    return replace(home, settings=replace(home.settings, **settings))


@pytest.fixture
def home(template: Template, tmp_path: Path) -> Home:
    return copied_home(template, tmp_path)


@pytest.fixture
def people(template: Template, home: Home) -> Iterator[People]:
    accounts = home.accounts()
    yield People(accounts, template.people.tokens, template.people.ids)
    accounts.close()


@pytest.fixture
def work_tree(template: Template, tmp_path: Path) -> WorkTree:
    """A clone of the runbooks, without a remote."""
    shutil.copytree(template.work_tree.path, tmp_path / "work", symlinks=True)
    return WorkTree(tmp_path / "work")


@pytest.fixture
def published_head(template: Template) -> str:
    """The commit published in the runbooks."""
    return template.head


@dataclass(frozen=True)
class Library:
    """A running server over a library; `heads` are the commits published in the runbooks, oldest first."""

    runtime: Runtime
    url: str
    people: People
    heads: tuple[str, ...]

    def client(self, who: str | None) -> DescribedClient:
        return DescribedClient(self.url, self.people[who] if who else None)


@pytest.fixture(scope="session")
def library(template: Template, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Library]:
    """Shared by every test that only reads."""
    directory = tmp_path_factory.mktemp("library")
    home = copied_home(template, directory, embedder="hashing", watch="off", wait_for_max_seconds=5.0)
    shutil.copytree(template.work_tree.path, directory / "work", symlinks=True)
    work_tree = WorkTree(directory / "work")
    newest = work_tree.write(
        {
            "deploy.md": published("Deployment", "Roll back with `kubectl rollout undo`.\n\n## Alarms\n\nERR-1234.\n"),
            "deploy/revisions.md": published("How to read revisions"),
            "odd/100% über & co +.md": published("Odd"),
            "draft.md": "---\ntitle: Unfinished\nstatus: draft\n---\nSecret plans.\n",
            "old.md": "---\ntitle: Old\nstatus: archived\n---\nGone by.\n",
        }
    )
    work_tree.git("push", "--quiet", str(RUNBOOKS.repository_path(home.repositories)), "main")
    private = WorkTree(directory / "private")
    private.path.mkdir()
    private.git("init", "--quiet", "--initial-branch=main")
    private.write({"diary.md": published("Diary", "Nobody else may read about the deployment.\n")})
    private.git("push", "--quiet", str(NOTES.repository_path(home.repositories)), "main")
    runtime = open_runtime(home)
    runtime.start()
    try:
        with running(application(runtime, SERVER_ENVIRONMENT)) as url:
            served = Library(runtime, url, template.people, (template.head, newest))
            until(lambda: bool(served.client("ada").get("/api/v1/status").json["fresh"]))
            yield served
    finally:
        runtime.stop()


@contextmanager
def opened_workshop(template: Template, directory: Path) -> Iterator[Library]:
    """A server on a copy of the template's home, with people whose tokens tests may add to."""
    home = copied_home(template, directory, embedder="none", watch="off")
    runtime = open_runtime(home)
    runtime.start()
    try:
        with running(application(runtime, SERVER_ENVIRONMENT)) as url:
            people = People(runtime.accounts, dict(template.people.tokens), dict(template.people.ids))
            yield Library(runtime, url, people, (template.head,))
    finally:
        runtime.stop()


@pytest.fixture(scope="session")
def workshop(template: Template, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Library]:
    """For tests that write, each to a base, user or team of its own; or read what no other test changes."""
    with opened_workshop(template, tmp_path_factory.mktemp("workshop")) as made:
        yield made


@pytest.fixture
def base(workshop: Library, request: pytest.FixtureRequest) -> str:
    """The address of a new base of the platform team, which nobody else uses."""
    slug = re.sub(r"[^a-z0-9]+", "-", request.node.name.lower())[:90].strip("-")
    made = workshop.client("ada").send("POST", "/api/v1/bases", {"space": "platform", "slug": slug})
    assert made.status == 201, made.body
    return f"/api/v1/bases/platform/{slug}"
