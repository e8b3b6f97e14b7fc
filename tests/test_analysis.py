from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbgit.analysis import LONGEST_TOKEN, Kind, analyse, chunks, chunks_at, exact, extents, fold, prepare
from tests.growth import HOSTILE_SIGNS, grows_too_fast, repeated

TEXTS = st.text(st.characters(exclude_categories=()), max_size=300)
SIGNS = st.text(alphabet="aÀß漢한_-.@#+/:'~$%&\\ \"[](){}*`0A\u0301\u200b\ud800", max_size=120)


def tokens(text: str) -> set[str]:
    return {token.text for chunk in chunks(text) for token in analyse(chunk).tokens}


def test_a_plain_word_is_one_token() -> None:
    assert tokens("restart") == {"restart"}


def test_words_are_indexed_without_case() -> None:
    assert tokens("RESTART Restart") == {"restart"}


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Straße", "STRASSE"),
        ("Größe", "grosse"),
        ("été", "ete"),
        ("Ærø", "aero"),
        ("Łódź", "lodz"),
        ("œuvre", "oeuvre"),
        ("İSTANBUL", "istanbul"),
        ("ıssız", "issiz"),
        ("naïve", "NAIVE"),
        ("ﬁle", "file"),
        ("Ｃａｆｅ", "café"),
        ("e\u0301te\u0301", "été"),
        ("ΣΊΣΥΦΟΣ", "σισυφος"),
        ("ёлка", "елка"),
    ],
)
def test_spellings_fold_to_one_form(one: str, other: str) -> None:
    assert fold(one) == fold(other)


def test_an_umlaut_is_also_indexed_written_out() -> None:
    assert tokens("Größe") == {"grosse", "groesse", "größe"}
    assert "groesse" in tokens("Groesse")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("knowledge_runtime_disabled", {"knowledge_runtime_disabled", "knowledge", "runtime", "disabled"}),
        ("ERR-1234", {"err-1234", "err", "1234"}),
        ("ERR1234", {"err1234", "err", "1234"}),
        ("C++", {"c++", "c"}),
        ("C#", {"c#", "c"}),
        ("F#", {"f#", "f"}),
        ("C++/CLI", {"c++", "c", "cli", "c++/cli"}),
        (".NET", {".net", "net"}),
        ("node.js", {"node.js", "node", "js"}),
        ("v1.2.3", {"v1.2.3", "1.2.3", "v1", "2", "3"}),
        ("/etc/hosts", {"/etc/hosts", "etc/hosts", "etc", "hosts"}),
        ("~/notes", {"~/notes", "notes"}),
        ("--include-knowledge", {"--include-knowledge", "include-knowledge", "include", "knowledge"}),
        ("-x", {"-x", "x"}),
        ("getUserById", {"getuserbyid", "get", "user", "by", "id"}),
        ("XMLHttpRequest", {"xmlhttprequest", "xml", "http", "request"}),
        ("R&D", {"r&d", "r", "d"}),
        ("W-2", {"w-2", "w", "2"}),
        ("@ana", {"@ana", "ana"}),
        ("foo_bar", {"foo_bar", "foo", "bar"}),
        ("__init__", {"__init__", "init"}),
        ("$HOME", {"$home", "home"}),
        ("--pretty=format", {"--pretty", "pretty", "format"}),
    ],
)
def test_a_symbol_is_indexed_whole_and_by_its_parts(text: str, expected: set[str]) -> None:
    assert tokens(text) == expected


def test_a_symbol_within_a_longer_one_is_indexed_too() -> None:
    assert {"foo_bar", "baz-qux"} <= tokens("foo_bar.baz-qux")
    assert "example.com" in tokens("https://example.com/a")


@pytest.mark.parametrize(
    "text", ["**bold**", "`bold`", "(bold)", "„bold“", "bold.", "bold,", "[bold]", "_bold_", "'bold'"]
)
def test_signs_around_a_word_are_not_part_of_it(text: str) -> None:
    assert tokens(text) == {"bold"}


@pytest.mark.parametrize("apostrophe", ["'", "’"])
def test_french_elision_is_split(apostrophe: str) -> None:
    assert "ecole" in tokens(f"l{apostrophe}école")
    assert "avant" in tokens(f"l{apostrophe}avant-garde")
    assert "l" not in tokens(f"l{apostrophe}école")


def test_an_english_contraction_is_found_with_and_without_its_apostrophe() -> None:
    assert "dont" in tokens("don’t")
    assert "dont" in tokens("dont")
    assert "ana" in tokens("Ana's")


def test_scripts_without_spaces_are_indexed_by_pairs_of_characters_and_the_last_one() -> None:
    assert tokens("向量数据库") == {"向量", "量数", "数据", "据库", "库"}
    assert tokens("カタカナ") == {"カタ", "タカ", "カナ", "ナ"}
    assert tokens("ｶﾀｶﾅ") == tokens("カタカナ")
    assert tokens("서버를") == {"서버", "버를", "를"}


def test_a_word_of_another_script_within_such_a_run_is_a_word() -> None:
    assert tokens("使用git管理") == {"使用", "用", "git", "管理", "理"}


def test_positions_run_through_units_and_wholes_stand_on_their_first() -> None:
    at = {token.text: token.offset for token in analyse("foo/bar_baz").tokens}
    assert at == {"foo": 0, "bar": 1, "baz": 2, "bar_baz": 1, "foo/bar_baz": 0}
    assert analyse("foo/bar_baz").span == 3


def test_capitals_do_not_change_positions() -> None:
    assert analyse("GitHub").span == analyse("github").span == 1


def test_the_exact_form_is_a_token_of_its_own_only_where_it_differs() -> None:
    assert [token.kind for token in analyse("éte").tokens] == [Kind.UNIT, Kind.EXACT]
    assert [token.kind for token in analyse("Ete").tokens] == [Kind.UNIT]


def test_a_word_without_end_is_cut_and_a_compound_without_end_is_known_by_its_parts() -> None:
    assert tokens("a" * 1000) == {"a" * LONGEST_TOKEN}
    assert tokens("-".join(["part"] * 1000)) == {"part"}


def test_folding_is_idempotent_for_every_character() -> None:
    unstable = [point for point in range(0x30000) if fold(fold(chr(point))) != fold(chr(point))]
    assert unstable == []


@given(TEXTS)
def test_folding_is_idempotent(text: str) -> None:
    assert fold(fold(text)) == fold(text)
    assert exact(exact(text)) == exact(text)


@given(st.one_of(TEXTS, SIGNS))
def test_no_text_raises_and_every_token_is_bounded_encodable_and_not_blank(text: str) -> None:
    for chunk in chunks(text):
        analysed = analyse(chunk)
        for token in analysed.tokens:
            assert 0 < len(token.text) <= LONGEST_TOKEN
            assert token.text.encode("utf-8").strip() == token.text.encode("utf-8")
            assert 0 <= token.offset < analysed.span
            assert "\n" not in token.text


@given(st.one_of(TEXTS, SIGNS))
def test_analysis_is_deterministic(text: str) -> None:
    assert [analyse(chunk) for chunk in chunks(text)] == [analyse(chunk) for chunk in chunks(text)]


@given(st.one_of(TEXTS, SIGNS))
def test_every_letter_and_digit_is_searchable(text: str) -> None:
    assert bool(tokens(text)) == any(character.isalnum() for character in text if fold(character))


@pytest.mark.parametrize(
    "part",
    [
        *HOSTILE_SIGNS,
        "-",
        "_",
        ".",
        "'",
        "/",
        "@",
        "a-",
        "a.b-",
        "a'",
        "Aa",
        "a1",
        "é",
        "漢",
        "\u0301",
        "\ufdfa",
    ],
)
def test_time_is_linear_in_the_length_of_any_text(part: str) -> None:
    assert not grows_too_fast(lambda text: [analyse(chunk) for chunk in chunks(text)], repeated(part), 4_000)


@given(st.text(alphabet="aB1é\u0301漢字 -_.'/+#@~:$", max_size=30) | st.text(max_size=30))
def test_every_position_of_a_text_has_a_place_in_it(text: str) -> None:
    prepared = prepare(text)
    found = list(chunks_at(prepared))
    assert [chunk for _, chunk in found] == list(chunks(text))
    for start, chunk in found:
        assert prepared[start : start + len(chunk)] == chunk
        analysed = analyse(chunk)
        places = extents(chunk)
        assert len(places) == analysed.span
        for token in analysed.tokens:
            if token.kind is Kind.UNIT:
                place = places[token.offset]
                assert fold(chunk[place.start : place.end])[:LONGEST_TOKEN].startswith(token.text[:20])
        assert all(one.symbol_start <= one.start < one.end <= one.symbol_end for one in places)


def test_a_symbol_is_placed_with_its_signs() -> None:
    assert [tuple(one) for one in extents("/etc/c++")] == [(1, 4, 0, 4), (5, 6, 5, 8)]
    assert [tuple(one) for one in extents("l'école")] == [(2, 7, 0, 7)]
