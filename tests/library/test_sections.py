"""What changed, by section."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kbgit.library.sections import LONGEST_DIFFERENCE, Content, changed_sections, difference_by_section, sections_of
from kbgit.store.hunks import Hunk, line_hunks

OLD = "# Top\n\nIntro.\n\n## One\n\nFirst.\n\n## Two\n\nSecond.\n"
LINES = ("# Top", "## One", "## Two", "text", "more text", "", "---", "- item", "```", "    code")
contents = st.lists(st.sampled_from(LINES), max_size=25).map(lambda lines: "".join(f"{line}\n" for line in lines))


def difference(old: str, new: str) -> list[tuple[tuple[str, ...], str]]:
    (hunks,) = line_hunks([(old, new)])
    return [(part.section, part.text) for part in difference_by_section(Content(old), Content(new), hunks)]


def test_a_removed_line_is_under_the_section_that_stands_in_its_place() -> None:
    new = OLD.replace("First.\n", "").replace("Second.", "Other.")
    assert difference(OLD, new) == [
        (("Top", "One"), "@@ -7 +6,0 @@\n-First.\n"),
        (("Top", "Two"), "@@ -11 +10 @@\n-Second.\n+Other.\n"),
    ]


def test_a_removed_section_is_named_by_its_own_heading() -> None:
    new = OLD.replace("## One\n\nFirst.\n\n", "")
    assert [section for section, _ in difference(OLD, new)] == [("Top", "One")]
    renamed = OLD.replace("## One", "## Eins")
    assert difference(OLD, renamed) == [
        (("Top", "One"), "@@ -5 +4,0 @@\n-## One\n"),
        (("Top", "Eins"), "@@ -5,0 +5 @@\n+## Eins\n"),
    ]


def test_a_long_difference_is_cut_and_says_so() -> None:
    (part,) = difference_by_section(Content("a\n"), Content("b" * 2 * LONGEST_DIFFERENCE), [Hunk(0, 1, 0, 1)])
    assert len(part.text) == LONGEST_DIFFERENCE
    assert part.as_json()["truncated"] is True


@given(contents, contents)
def test_every_changed_line_is_in_exactly_one_section(old: str, new: str) -> None:
    before, after = Content(old), Content(new)
    hunk = Hunk(0, len(before.lines), 0, len(after.lines))
    rows = [row for part in difference_by_section(before, after, [hunk]) for row in part.text.split("\n")[:-1]]
    assert sorted(row[1:] for row in rows if row.startswith("-")) == sorted(before.lines)
    assert sorted(row[1:] for row in rows if row.startswith("+")) == sorted(after.lines)


@given(contents, contents)
def test_the_sections_that_are_not_named_are_the_same(old: str, new: str) -> None:
    changes = changed_sections(old, new)
    named_old = {change.old_lines for change in changes}
    named_new = {change.new_lines for change in changes}
    same_old = [(part.path, part.text) for part in sections_of(old) if part.lines not in named_old]
    same_new = [(part.path, part.text) for part in sections_of(new) if part.lines not in named_new]
    assert sorted(same_old) == sorted(same_new)
    assert not changed_sections(old, old)


def test_sections_with_equal_headings_are_paired_in_order() -> None:
    twice = "# A\n\n## Example\n\none\n\n## Example\n\ntwo\n"
    (change,) = changed_sections(twice, twice.replace("two", "three"))
    assert (change.kind.value, change.old_lines, change.new_lines) == ("changed", (7, 9), (7, 9))
