from __future__ import annotations

import pytest

from kbgit.cli.paging import MOST, first


class Listed:
    """A list of `count` rows in pages, and what was asked of it."""

    def __init__(self, count: int) -> None:
        self._rows = list(range(count))
        self.asked: list[tuple[str | None, int]] = []

    def page(self, cursor: str | None, most: int) -> dict[str, object]:
        self.asked.append((cursor, most))
        start = int(cursor or 0)
        end = min(start + most, start + MOST)
        return {"rows": self._rows[start:end], "cursor": str(end) if end < len(self._rows) else None, "of": start}


@pytest.mark.parametrize("count", [0, 1, MOST, MOST + 1, 3 * MOST])
def test_without_a_limit_the_whole_list_comes(count: int) -> None:
    found = first(Listed(count).page, "rows")
    assert found["rows"] == list(range(count))
    assert found["cursor"] is None


def test_no_more_is_asked_for_than_is_wanted_and_the_cursor_goes_on_there() -> None:
    listed = Listed(1000)
    found = first(listed.page, "rows", MOST + 50)
    assert found["rows"] == list(range(MOST + 50))
    assert listed.asked == [(None, MOST), (str(MOST), 50)]
    assert first(listed.page, "rows", 1)["rows"] == [0]
    assert listed.page(found["cursor"], 1)["rows"] == [MOST + 50]


def test_what_a_list_says_beside_its_rows_is_the_first_page_s() -> None:
    assert first(Listed(3 * MOST).page, "rows")["of"] == 0
