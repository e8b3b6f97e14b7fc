"""SIGKILL in every step: nothing acknowledged is lost, and after a restart all is as if it were built anew from Git.

Here each step is killed once; `python -m benchmarks.faults --kills 500` is the long run.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from tests.faults.kills import STEPS, Kills, start_again
from tests.faults.nursery import Nursery
from tests.faults.site import Site


@pytest.fixture(scope="module")
def kills(nursery: Nursery, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kills]:
    site = Site(tmp_path_factory.mktemp("kills") / "site", nursery)
    yield Kills(site, random.Random(20261130))
    site.close()


@pytest.mark.parametrize("step", STEPS)
def test_a_kill_in_this_step_loses_nothing_and_leaves_what_a_rebuild_gives(kills: Kills, step: str) -> None:
    kills.kill_in(step)
    start_again(kills.site)
    assert kills.site.differences() == []


def test_what_was_lost_would_be_noticed(site: Site) -> None:
    assert site.start()
    assert site.push(), site.said
    assert site.differences() == []
    site.acknowledged.append("0" * 40)
    site.erased.append("alpha beta")
    lost, uncatalogued, *kept = site.differences()
    assert lost == f"lost: {'0' * 40} was acknowledged"
    assert uncatalogued == f"not catalogued: {'0' * 40}"
    assert kept
    assert all("of what was erased" in line for line in kept)
