"""Every promise and every kind of fault has a test that exists, or a reason; and the page says so."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.reliability import PAGE, PROMISES, Row, exists, page, results, rows, without_results

ROWS = rows()


@pytest.mark.parametrize("row", ROWS, ids=[row.name for row in ROWS])
def test_a_row_has_tests_that_exist_or_a_reason(row: Row) -> None:
    assert [test for test in row.tests if not exists(test)] == []
    assert row.tests or len(row.reason) > 40
    assert row.says
    assert "|" not in row.says + row.reason


def test_every_promise_has_its_row_and_no_kind_has_two() -> None:
    assert [row.name for row in ROWS if row.group == "Promises"] == [str(n) for n in range(1, PROMISES + 1)]
    kinds = [row.name for row in ROWS if row.group != "Promises"]
    assert len(kinds) == len(set(kinds))
    groups = list(dict.fromkeys(row.group for row in ROWS))
    assert [row.group for row in ROWS] == [group for group in groups for row in ROWS if row.group == group]


def test_the_page_is_what_the_rows_say() -> None:
    assert without_results(PAGE.read_text("utf-8")) == without_results(page({}))


def test_a_test_that_does_not_exist_is_noticed() -> None:
    assert exists("test_reliability.py::test_a_test_that_does_not_exist_is_noticed")
    assert not exists("test_reliability.py::test_that_nobody_wrote")
    assert not exists("test_nothing.py::test_that_nobody_wrote")


def test_results_come_from_a_report(tmp_path: Path) -> None:
    report = tmp_path / "report.xml"
    report.write_text(
        '<testsuites><testsuite><testcase classname="tests.faults.test_a" name="test_x[1]"/>'
        '<testcase classname="tests.faults.test_a" name="test_x[2]"><skipped/></testcase>'
        '<testcase classname="tests.test_b" name="test_y"><failure/></testcase>'
        '<testcase classname="tests.test_b" name="test_z"/></testsuite></testsuites>'
    )
    assert results(report) == {
        "faults/test_a.py::test_x": "passed, 1 skipped",
        "test_b.py::test_y": "failed",
        "test_b.py::test_z": "passed",
    }


def test_pages_that_differ_in_results_alone_are_alike() -> None:
    passed = {test: "passed" for row in ROWS for test in row.tests}
    assert page(passed) != page({})
    assert without_results(page(passed)) == without_results(page({}))
    assert without_results(page({}).replace("append-only", "rewritten")) != without_results(page({}))
