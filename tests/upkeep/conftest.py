"""A furnished home, made once; each test gets a copy."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from tests.upkeep.furnishing import Furnished, furnish


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Furnished:
    scratch = tmp_path_factory.mktemp("furnished")
    return furnish(scratch / "home", scratch)


@pytest.fixture
def furnished(made: Furnished, tmp_path: Path) -> Furnished:
    shutil.copytree(made.path, tmp_path / "home", symlinks=True)
    return replace(made, path=tmp_path / "home")
