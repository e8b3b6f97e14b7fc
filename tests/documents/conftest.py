"""A home with people and a base, whose documents are read by the odd worker."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kbgit.access import Principal, Role
from kbgit.assemble import Runtime, open_runtime
from kbgit.base import BaseKey
from kbgit.documents.placing import Placing
from kbgit.documents.service import Documents
from kbgit.home import Home
from kbgit.importing import BaseOptions
from tests.documents.queueing import WORKER


@pytest.fixture
def runtime(tmp_path: Path) -> Iterator[Runtime]:
    """ada owns the platform team with its runbooks and shelf, max is a member, vera a viewer; olga is in no team."""
    Home.create(tmp_path / "home")
    opened = open_runtime(Home.at(tmp_path / "home", {"embedder": "none", "watch": "off"}))
    for user in ("ada", "max", "vera", "olga"):
        opened.accounts.add_user(user, "test")
    opened.accounts.add_team("platform", "ada", "test")
    opened.accounts.set_member("team:platform", "max", Role.MEMBER, "test")
    opened.accounts.set_member("team:platform", "vera", Role.VIEWER, "test")
    operator = Principal("ada", operator=True)
    for slug in ("runbooks", "shelf"):
        opened.bases.create(BaseKey("team:platform", slug), operator, BaseOptions(name=slug))
    yield opened
    opened.stop()


@pytest.fixture
def opened(runtime: Runtime) -> Iterator[Callable[..., Documents]]:
    """Opens the home's documents, with settings; all are stopped at the end."""
    made: list[Documents] = []

    def open_documents(**settings: Any) -> Documents:  # noqa: ANN401
        placing = Placing(runtime.accounts, runtime.catalogue, runtime.indexer, runtime.writing)
        documents = Documents(
            runtime.home.path / "documents",
            replace(runtime.home.settings, **{"document_memory_mb": 192, **settings}),
            runtime.catalogue,
            placing,
            command=WORKER,
        )
        made.append(documents)
        runtime.bases.on_purge = documents.forget_base
        return documents

    yield open_documents
    for documents in made:
        documents.stop()


@pytest.fixture
def documents(opened: Callable[..., Documents]) -> Documents:
    """The home's documents; nothing is extracted until `work_off` or `start`."""
    return opened()


@pytest.fixture
def ada(runtime: Runtime) -> Principal:
    return runtime.accounts.principal("ada")


@pytest.fixture
def max_(runtime: Runtime) -> Principal:
    return runtime.accounts.principal("max")
