"""Fields whose new value is a mapping: `kbgit.header_edit`; its other values are tested in `test_item_edits.py`."""

from __future__ import annotations

import pytest
import yaml
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from kbgit.errors import DocumentProblem
from kbgit.header_edit import NewValue
from kbgit.item import edit_document, parse_document

NEW = {"name": "no", "size": "10"}
BLOCK = '  name: "no"\n  size: "10"'
BEFORE = "---\n# above\nid: item_1  # mine\n"
AFTER = "\n# below\ntags: [a,  'b']\n---\n# Body\n\ntext\t \n"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("source: old  # why", f"source:  # why\n{BLOCK}"),
        ("source: 'a''b'", f"source:\n{BLOCK}"),
        ("source:   # nothing yet", f"source:   # nothing yet\n{BLOCK}"),
        ("source:", f"source:\n{BLOCK}"),
        ("source:\n  far", f"source:\n{BLOCK}"),
        ("source:\n  # note\n  far  # off", 'source:\n  # note\n  name: "no"\n  size: "10"  # off'),
        ("source: {name: a,\n  size: b}  # c", f"source:  # c\n{BLOCK}"),
        ("source: {}", f"source:\n{BLOCK}"),
        ("source: [a, b]", f"source:\n{BLOCK}"),
        ("source: |\n  one\n\n  two", f"source:\n{BLOCK}"),
        ("source:  # list\n  - a\n  - b", f"source:  # list\n{BLOCK}"),
        ("source:\n- a\n- b", f"source:\n{BLOCK}"),
        ("source:  # block\n    name: a\n    other: b", f"source:  # block\n{BLOCK.replace('  ', '    ')}"),
        ("source:\n  deep:\n    deeper: a\n  list:\n  - b", f"source:\n{BLOCK}"),
        ("? source\n: old", f"source:\n{BLOCK}"),
    ],
)
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_a_mapping_takes_the_place_of_what_was_there_and_of_nothing_else(old: str, new: str, newline: str) -> None:
    raw = (BEFORE + old + AFTER).replace("\n", newline).encode()
    edited = edit_document(raw, {"source": NEW})
    assert edited.decode() == (BEFORE + new + AFTER).replace("\n", newline)
    assert edit_document(edited, {"source": NEW}) == edited


def test_a_mapping_that_was_not_there_goes_to_the_end_of_the_header() -> None:
    assert edit_document(b"---\na: b\n---\nx", {"source": NEW}) == f"---\na: b\nsource:\n{BLOCK}\n---\nx".encode()
    assert edit_document(b"x\n", {"source": NEW}) == f"---\nsource:\n{BLOCK}\n---\nx\n".encode()
    indented = edit_document(b"---\n  a: b\n---\n", {"source": NEW})
    assert indented == b'---\n  a: b\n  source:\n    name: "no"\n    size: "10"\n---\n'


def test_an_empty_mapping_is_written_in_braces() -> None:
    assert edit_document(b"", {"source": {}}) == b"---\nsource: {}\n---\n"
    assert edit_document(b"---\nsource:\n  a: b\n---\n", {"source": {}}) == b"---\nsource: {}\n---\n"
    assert edit_document(b"---\nsource: a  # c\n---\n", {"source": {}}) == b"---\nsource: {}  # c\n---\n"


def test_a_mapping_gives_way_to_text_a_list_or_nothing() -> None:
    raw = edit_document(b"---\na: b\n---\nx", {"source": NEW})
    assert edit_document(raw, {"source": "text"}) == b"---\na: b\nsource: text\n---\nx"
    assert edit_document(raw, {"source": ["c", "d"]}) == b"---\na: b\nsource: [c, d]\n---\nx"
    assert edit_document(raw, {"source": None}) == b"---\na: b\n---\nx"


def test_the_same_mapping_in_another_order_is_no_change() -> None:
    raw = b"---\nsource: {size: 10, name: 'no'}\n---\n"
    assert edit_document(raw, {"source": NEW}) == raw


@pytest.mark.parametrize("mapping", [{"": "v"}, {"a\x00": "v"}, {"a": "\ud800"}, {"a" * 2000: "v"}])
def test_a_mapping_that_cannot_be_written_is_refused(mapping: dict[str, str]) -> None:
    with pytest.raises(DocumentProblem):
        edit_document(b"---\ntitle: x\n---\n", {"source": mapping})


texts = (
    st.text(max_size=30)
    | st.text("-: #'\"[]{}&*!|>%@`\t\nab\\~,.?", max_size=12)
    | st.sampled_from(["no", "1.10", "~"])
)
keys = (st.text("abc_-", min_size=1, max_size=4) | texts).filter(lambda key: key not in ("", "<<"))
mappings = st.dictionaries(keys, texts, max_size=4)
headers = st.sampled_from(
    [
        "",
        "# c\na: b\n",
        "source: old\nz: 1  # z\n",
        "a: b\nsource:\n- x\n- y\n# c\nz: 1\n",
        "source:\n   x: y  # mine\n   n:\n     deep: er\n\n# about z\nz: [1,  2]\n",
        "source: >\n  one\n  two\n\nz: 1\n",
        "source: {x: y,\n z: [a]} # c\nz: 1\n",
        "source:\nz: 1\n",
    ]
)


def is_storable(mapping: dict[str, str]) -> bool:
    return not any(one == "\x00" or "\ud800" <= one <= "\udfff" for one in "".join([*mapping, *mapping.values()]))


@settings(max_examples=300, deadline=None)
@given(headers, mappings.filter(is_storable), st.sampled_from(["source", "fresh"]))
def test_any_mapping_reads_back_here_and_with_any_other_reader(header: str, mapping: dict[str, str], key: str) -> None:
    raw = f"---\n{header}---\nbody\n".encode()
    before = parse_document(raw)
    edited = edit_document(raw, {key: mapping})
    document = parse_document(edited)
    assert document.fields == {**before.fields, key: mapping}
    assert document.content == "body\n"
    assert edit_document(edited, {key: mapping}) == edited
    for line in ("a: b", "z: 1", "z: [1,  2]", "# about z", "# c\nz: 1"):
        assert (f"\n{line}" in header) <= (line in edited.decode())
    written = edit_document(b"", {key: mapping}).decode().removeprefix("---\n").removesuffix("---\n")
    assert yaml.safe_load(written) == {key: mapping}


@settings(deadline=None)
@given(mappings.filter(is_storable), mappings.filter(is_storable))
def test_a_mapping_over_a_mapping_leaves_no_trace_of_it(one: dict[str, str], other: dict[str, str]) -> None:
    assume(one)
    change: dict[str, NewValue] = {"source": other}
    assert edit_document(edit_document(b"x", {"source": one}), change) in (
        edit_document(b"x", change),
        edit_document(b"x", {"source": one}),  # where both are the same, in another order
    )
