"""A clock that jumps: orders and numbers come from Git, and no answer depends on what time it was."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from kbgit.base import BaseKey
from kbgit.catalogue import Catalogue
from kbgit.home import Home
from kbgit.publish import catch_up, rebuild
from kbgit.store import Repository
from tests.writing import Writer, tables, text

NOW = 1_700_000_000.0
JUMPS = (0.0, -86_400.0 * 400, 86_400.0 * 365 * 50, -1_699_999_999.0, 60.0)


def test_publications_keep_their_order_whatever_the_clock_says(
    home: Home, key: BaseKey, base_repository: Repository, catalogue: Catalogue, new_writer: Callable[[str], Writer]
) -> None:
    writer = new_writer("writer")
    (home.hooks / "post-receive").write_text("#!/bin/sh\nexit 0\n")
    (home.hooks / "pre-receive").write_text("#!/bin/sh\nexit 0\n")  # nobody announces, so the clock below is asked
    catalogue.add_base(key)
    heads = []
    for number, jump in enumerate(JUMPS):
        heads.append(writer.publish({"a.md": text(f"A {number}", id="a")}))
        catch_up(base_repository, catalogue, catalogue.base(str(key)), home.limits, clock=partial(float, NOW + jump))
    lived = tables(home)
    published = sorted(lived["publications"], key=lambda row: int(str(row[1])))
    assert [row[3] for row in published] == heads
    assert [row[6] for row in published] == [int(NOW + jump) for jump in JUMPS]
    item = catalogue.item(str(key), "a")
    assert item is not None
    assert (item.revision, item.number, item.title) == (heads[-1], len(heads), "A 4")
    rebuild(base_repository, catalogue, catalogue.base(str(key)), home.limits)
    assert tables(home) == lived
