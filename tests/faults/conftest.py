"""What the tests of faults share: the parent of servers that are killed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.nursery import Nursery
from tests.faults.site import Site


@pytest.fixture(scope="session")
def nursery() -> Iterator[Nursery]:
    made = Nursery()
    yield made
    made.close()


@pytest.fixture
def site(nursery: Nursery, tmp_path: Path) -> Iterator[Site]:
    """A home of its own, whose server is not started yet."""
    made = Site(tmp_path / "site", nursery)
    yield made
    made.close()
