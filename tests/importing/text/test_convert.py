"""Files to Markdown: `kbgit.importing.text`."""

from __future__ import annotations

import hashlib
from contextlib import suppress
from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from kbgit.errors import DocumentProblem, UnsupportedFile
from kbgit.header_edit import canonical_content
from kbgit.importing.text import KINDS, convert
from kbgit.item import edit_document, parse_document
from tests.growth import grows_too_fast, repeated

PARSER = MarkdownIt("commonmark").enable("table")
FENCED = {".json": "json", ".py": "python", ".js": "javascript", ".ts": "typescript", ".tsx": "tsx", ".yaml": "yaml"}
FENCED |= {".yml": "yaml", ".toml": "toml"}


def fences(markdown: str) -> list[tuple[str, str]]:
    """(language, content) of each code block, as a Markdown reader sees them; nothing else may be there."""
    tokens = PARSER.parse(markdown)
    return [(token.info, token.content) for token in tokens if token.type == "fence"]


def test_the_table_has_the_kinds_that_are_promised() -> None:
    promised = ".md .markdown .txt .json .csv .py .js .ts .tsx .html .yaml .yml .toml"
    assert list(KINDS) == promised.split()


def test_a_file_keeps_its_name_type_size_and_hash() -> None:
    raw = b"print(1)\r\n"
    converted = convert("tools/run.PY", raw)
    source = converted.source
    assert (source.name, source.media_type, source.size) == ("tools/run.PY", "text/x-python", 10)
    assert source.sha256 == hashlib.sha256(raw).hexdigest()
    assert (converted.title, converted.markdown) == ("run.PY", "```python\nprint(1)\n```\n")


@pytest.mark.parametrize("name", ["a.exe", "a", "a.pdf", ".md/a", "a.md.zip", "a.\u202emd"])
def test_other_kinds_are_refused(name: str) -> None:
    with pytest.raises(UnsupportedFile) as caught:
        convert(name, b"text")
    assert caught.value.code == "unsupported_file"
    assert "\u202e" not in caught.value.message


# --- Markdown


def test_markdown_stays_as_it_is() -> None:
    text = "---\r\ntitle: 'T'  # keep\r\nstatus: published\r\n---\r\n# H\r\n\r\n<b>x</b>\r\n"
    converted = convert("a.markdown", b"\xef\xbb\xbf" + text.encode())
    assert (converted.markdown, converted.title, converted.says_title) == (text, "T", True)
    assert convert("a.md", b"# H\n").title == "H"
    assert convert("x/notes.md", b"text").title == "notes.md"


def test_a_broken_header_is_refused_with_its_line() -> None:
    with pytest.raises(DocumentProblem) as caught:
        convert("a.md", b"---\ntags: [a]\ntitle: Release: plan\n---\nx")
    assert caught.value.line == 3


# --- code and data


@pytest.mark.parametrize(("suffix", "language"), FENCED.items())
def test_code_is_fenced_with_its_language(suffix: str, language: str) -> None:
    assert fences(convert(f"x{suffix}", b"a\n\tb\n").markdown) == [(language, "a\n\tb\n")]


@pytest.mark.parametrize("inside", ["```\ncode\n```\n", "~~~\n", "`````` ````\n~~~~~~~\n", "````\n``\n", "   ```\n"])
def test_fences_inside_never_close_the_outer_one(inside: str) -> None:
    markdown = convert("x.py", inside.encode()).markdown
    assert fences(markdown) == [("python", inside)]
    assert PARSER.parse(markdown)[0].map == [0, markdown.count("\n")]


@settings(max_examples=300, deadline=None)
@given(
    st.sampled_from(sorted(FENCED)),
    st.text(st.characters(exclude_characters="\0"), max_size=60)
    | st.lists(st.sampled_from(["`", "~", "```", "~~~", "\n", " ", "\t", "x", "\r"])).map("".join),
)
def test_the_code_block_holds_exactly_the_text(suffix: str, text: str) -> None:
    with suppress(UnsupportedFile):
        markdown = convert(f"x{suffix}", text.encode("utf-8", "replace")).markdown
        wanted = canonical_content(text.encode("utf-8", "replace").decode())
        ended = wanted if wanted.endswith("\n") or not wanted else wanted + "\n"
        assert fences(markdown) == [(FENCED[suffix], ended)]
        assert [token.type for token in PARSER.parse(markdown)] == ["fence"]


@given(st.text(max_size=20), st.text(max_size=20))
def test_what_has_a_zero_byte_is_no_utf_8_but_wide_or_no_text(before: str, after: str) -> None:
    with suppress(UnsupportedFile):
        notes = convert("x.js", f"{before}\0{after}".encode("utf-8", "replace")).notes
        assert [
            note
            for note in notes
            if note.startswith(("converted to UTF-8 from UTF-16", "converted to UTF-8 from UTF-32"))
        ]


# --- plain text


@pytest.mark.parametrize(
    "text",
    [
        "One paragraph\nover two lines.\n\nAnother: 5 < 6, a_b, C:\\new, 10% & more.\n",
        "Shopping\n\n- bread\n- milk\n\n1. first\n2. second\n",
        "年假 auch.\n",
        "",
        "no end of line",
    ],
)
def test_prose_stays_prose(text: str) -> None:
    assert convert("a.txt", text.encode()).markdown == text


@pytest.mark.parametrize(
    "text",
    [
        "# no heading\n",
        "Title\n=====\n",
        "Title\n---\n",
        "name      size\na.txt     10\n",
        "text\n\n    indented\n",
        "\tindented\n",
        "> quoted\n",
        "see <name> here\n",
        "glob *.py and *.md\n",
        "[x](y)\n",
        "[x]: y\n",
        "```\nopen\n",
        "a &lt; b\n",
        "---\ntitle: x\n---\n",
        "***\n",
        "a | b\n--|--\n",
        "| a |\n|---|\n",
        "__init__ it\n",
        "<<<<<<< ours\na\n=======\nb\n>>>>>>> theirs\n",
        "a\\*b\n",
        "~~x~~\n",
    ],
)
def test_text_that_markdown_would_read_otherwise_is_fenced(text: str) -> None:
    markdown = convert("a.txt", text.encode()).markdown
    assert fences(markdown) == [("text", text)]
    assert parse_document(edit_document(b"", {"title": "x"}, markdown)).content == markdown


@settings(max_examples=300, deadline=None)
@given(st.lists(st.sampled_from(list("#>-=*_`~[]()|<a \n\t\\&1.:"))).map("".join))
def test_text_is_read_as_words_or_fenced(text: str) -> None:
    markdown = convert("a.txt", text.encode()).markdown
    allowed = {"text", "softbreak"}
    for token in PARSER.parse(markdown):
        if token.type == "fence":
            assert token.content.rstrip("\n") == text.rstrip("\n")
        else:
            kind = token.type.removesuffix("_open").removesuffix("_close")
            assert kind in ("paragraph", "inline", "bullet_list", "ordered_list", "list_item"), text
            assert {child.type for child in token.children or ()} <= allowed, text


# --- CSV


def test_a_small_csv_is_a_table_and_the_file_itself() -> None:
    text = 'name;note\na|b;"two\nlines"\n<i>;*x*\nshort\n'
    markdown = convert("a.csv", text.encode()).markdown
    assert markdown.startswith(
        "| name | note |\n| --- | --- |\n| a\\|b | two lines |\n| \\<i> | \\*x\\* |\n| short |  |\n\n```csv\n"
    )
    assert fences(markdown) == [("csv", text)]


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_the_delimiter_is_recognised(delimiter: str) -> None:
    text = "\n".join(delimiter.join(row) for row in (["a", "b", "c"], ["1", "2,5" if delimiter != "," else "2", "3"]))
    assert convert("a.csv", text.encode()).markdown.startswith("| a | b | c |\n| --- | --- | --- |\n| 1 | 2")


@pytest.mark.parametrize(
    "text",
    [
        "a,b\n" * 60,
        ",".join("abcdefghijklmno") + "\n",
        "one column\nof words\n",
        "",
        '"never, closed\n',
        "a,b\n" + "x" * 40_000,
    ],
)
def test_a_large_or_odd_csv_is_only_itself(text: str) -> None:
    markdown = convert("a.csv", text.encode()).markdown
    assert markdown.startswith("```csv\n")
    assert fences(markdown)[0][1].rstrip("\n") == text.rstrip("\n")


@settings(max_examples=200, deadline=None)
@given(st.lists(st.lists(st.text("ab|\\`*<>&_[]()\n\"' ", max_size=6), min_size=2, max_size=4), min_size=1, max_size=4))
def test_any_cell_stays_a_cell(rows: list[list[str]]) -> None:
    quoted = "".join(",".join('"' + cell.replace('"', '""') + '"' for cell in row) + "\n" for row in rows)
    tokens = PARSER.parse(convert("a.csv", quoted.encode()).markdown)
    assert tokens[-1].type == "fence"
    for token in tokens:
        assert {child.type for child in token.children or ()} <= {"text", "text_special"}


# --- anything


@settings(max_examples=400, deadline=None)
@given(
    st.sampled_from(sorted(KINDS)),
    st.binary(max_size=120) | st.text(max_size=80).map(lambda t: t.encode("utf-8", "replace")),
)
def test_any_bytes_convert_or_are_refused_by_a_typed_error(suffix: str, raw: bytes) -> None:
    try:
        converted = convert(f"x{suffix}", raw)
    except (UnsupportedFile, DocumentProblem):
        return
    assert converted.title
    if suffix not in (".md", ".markdown"):
        assert parse_document(edit_document(b"", {"title": converted.title}, converted.markdown)).title


@pytest.mark.parametrize("suffix", [".html", ".txt", ".csv", ".md", ".py"])
def test_conversion_is_linear_in_hostile_input(suffix: str) -> None:
    pieces = [
        *"<[]`~|*_&,\"'-#\\",
        "x\n",
        "```\n",
        "- ",
        "1. ",
        " ",
        "\t",
        '<a b="',
        "<a '",
        "<a ",
        "<!--",
        "<div>",
        "<b></i>",
        "<i></p>",
    ]
    pieces += ["<ul><li>", "<table><tr><td>", "<p><table>", "</td>", "<blockquote>x", "<a href=x>y!", "<span hidden>"]
    for piece in pieces if suffix == ".html" else pieces[:20]:
        assert not grows_too_fast(partial(_converted, suffix), repeated(piece), 10_000)


def _converted(suffix: str, text: str) -> None:
    with suppress(UnsupportedFile, DocumentProblem):
        convert(f"x{suffix}", text.encode())
