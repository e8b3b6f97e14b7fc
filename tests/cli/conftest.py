"""Fixtures: homes made by the program itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.running import DEPLOY, PAGES, Kbgit, Published, git, new_home, write


@pytest.fixture
def kbgit(tmp_path: Path) -> Kbgit:
    return new_home(tmp_path / "home")


@pytest.fixture
def pages(tmp_path: Path) -> Path:
    """A directory of Markdown."""
    return write(tmp_path / "Team Pages", PAGES)


@pytest.fixture(scope="session")
def published(tmp_path_factory: pytest.TempPathFactory) -> Published:
    """For tests that change nothing."""
    scratch = tmp_path_factory.mktemp("published")
    source = write(scratch / "handbook", PAGES)
    git(source, "init", "--quiet", "--initial-branch=main")
    heads = []
    for message in ("Write the first pages", "Deploy in the morning"):
        git(source, "add", "--all")
        git(source, "commit", "--quiet", "--message", message)
        heads.append(git(source, "rev-parse", "HEAD"))
        write(source, {"deploy/production.md": DEPLOY.replace("at noon", "in the morning")})
    home = new_home(scratch / "home")
    home.run("base", "import", "--from", str(source))
    home.run("reindex")
    return Published(home, (heads[0], heads[1]))
