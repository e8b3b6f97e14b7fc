"""Citations in running text and in files."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kbgit.citation import Citation
from kbgit.errors import InvalidRequest
from kbgit.frontmatter import decode
from kbgit.library.citing import LARGEST_FILE, citations_below, content_lines, find_citations, quote_hash

SHA = "0123456789abcdef0123456789abcdef01234567"
ONE = f"knowledge:item_a@{SHA}#L1-L2"

AROUND = (
    *("({})", "[{}]", "`{}`", '"{}"', "'{}'", "<{}>", "see {}.", "{}, and", "「{}」", "[text]({})", "{};", "见 {}。"),
    *("**{}**", "{}", "\t{}\n", "({}),", "{}!", "|{}|"),
)
plain_ids = st.text(st.characters(codec="utf-8", categories=["L", "N"], include_characters="._-/,;:!?*=&~"), min_size=1)
any_ids = st.text(
    st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"], exclude_characters='`"<>@'), min_size=1, max_size=200
)
lines = st.none() | st.tuples(st.integers(1, 10**8), st.integers(0, 10**3)).map(lambda two: (two[0], sum(two)))


def texts(text: str) -> list[str]:
    return [found.text for found in find_citations(text)]


@given(plain_ids, lines, st.sampled_from(AROUND))
@example("a:b", None, "{}")
def test_a_citation_is_found_inside_any_punctuation(item_id: str, cited: tuple[int, int] | None, around: str) -> None:
    citation = str(Citation(item_id, SHA, cited))
    text = "Before:\n" + around.format(citation) + " after"
    (found,) = find_citations(text)
    assert found.text == citation
    assert text[found.offset :].startswith(citation)
    assert found.line == text.count("\n", 0, found.offset) + 1


@given(any_ids, lines, st.sampled_from(["`{}`", '"{}"', "<{}>"]))
def test_an_id_with_blanks_and_brackets_is_found_between_delimiters(
    item_id: str, cited: tuple[int, int] | None, around: str
) -> None:
    citation = str(Citation(item_id, SHA, cited))
    assert texts(f"See {around.format(citation)}.") == [citation]


@given(st.lists(st.sampled_from([ONE, "knowledge:", "`", '"', " ", "@", SHA, "<", ")", "\n", "x", "#L3", ",", "-"])))
def test_whatever_is_found_is_in_the_text_in_order_and_apart(parts: list[str]) -> None:
    text = "".join(parts)
    end = 0
    for found in find_citations(text):
        assert found.offset >= end
        assert text.startswith(found.text, found.offset)
        assert found.text.startswith("knowledge:")
        assert "\n" not in found.text
        end = found.offset + len(found.text)


def test_several_citations_in_one_line_are_told_apart() -> None:
    two = f"knowledge:b@{SHA}"
    assert texts(f"{ONE},{two};{ONE}") == [ONE, two, ONE]
    assert texts(f'"{ONE} and {two}" `{two} {two}`') == [ONE, two, two, two]
    assert texts(f'{{"reference": "{two}", "citation": "{ONE}"}}') == [two, ONE]


@pytest.mark.parametrize(
    "text",
    ["the scope knowledge:read", "knowledge:item", "knowledge:<item-id>@<revision-id>", "`knowledge:item@<40 hex>`",
     f"myknowledge:item@{SHA}", f"knowledge:@{SHA}", f"knowledge: item@{SHA}", "mail knowledge:a@example.org", ""],
)  # fmt: skip
def test_what_has_no_revision_is_no_citation(text: str) -> None:
    assert texts(text) == []


@pytest.mark.parametrize(
    "broken",
    [f"knowledge:a@{SHA[:-1]}", f"knowledge:a@{SHA}0", f"knowledge:a@{SHA.upper()}", "knowledge:a@deadbeef",
     f"knowledge:a@{SHA}#L9-L2", f"knowledge:a@{SHA}#L1-20", f"knowledge:a@{SHA}#L0"],
)  # fmt: skip
def test_a_broken_citation_is_found_so_that_verifying_can_say_so(broken: str) -> None:
    assert texts(f"see ({broken}).") == [broken]
    assert texts(f"`{broken}`") == [broken]


def test_finding_takes_linear_time() -> None:
    for text in ("knowledge:" * 200_000, "`knowledge:" * 200_000, f"@{SHA}" * 50_000, '"knowledge:a' * 100_000):
        assert len(texts(text)) <= 1


def test_files_below_a_directory_are_searched(tmp_path: Path) -> None:
    def write(name: str, content: bytes) -> None:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(content)

    one = ONE.encode()
    write("b.md", b"first\n\nsee " + one + b".\n")
    write("a/latin.txt", b"caf\xe9 " + one)
    write("a/.hidden", one)
    write(".git/config", one)
    write("node_modules/x.md", one)
    write("binary.bin", b"\x00" + one)
    write("large.txt", one + b" " * LARGEST_FILE)
    (tmp_path / "link.md").symlink_to(tmp_path / "b.md")
    found = [
        (found.path.relative_to(tmp_path).as_posix(), found.line, found.text) for found in citations_below(tmp_path)
    ]
    assert found == [("b.md", 3, ONE), ("a/latin.txt", 1, ONE)]
    assert [found.text for found in citations_below(tmp_path / "a/.hidden")] == [ONE]  # named, so meant
    with pytest.raises(InvalidRequest):
        list(citations_below(tmp_path / "missing"))


@given(st.text(st.sampled_from("ab\n \u2028\x0b"), max_size=30))
def test_lines_are_those_of_git(content: str) -> None:
    text = decode(content.encode())
    ended = text if text.endswith("\n") else text + "\n"
    assert "".join(f"{line}\n" for line in content_lines(text)) == ended


def test_a_quote_hash_is_the_sha256_of_the_lines() -> None:
    assert quote_hash("ä\nb") == "sha256:" + hashlib.sha256(b"\xc3\xa4\nb").hexdigest()
