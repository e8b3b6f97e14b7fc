from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kbgit.index.bm25 import K1, B, Bm25, LexicalScores, Searched
from kbgit.index.contract import IndexedPassage
from kbgit.index.lexical import LexicalIndex, Snapshot
from kbgit.index.postings import PostingsCache
from kbgit.index.query import parse_query
from tests.growth import grows_too_fast, repeated

HEAD = "a" * 40
CACHE_BYTES = 64 << 20


def passage(item: str, text: str, title: str = "", base: str = "base") -> IndexedPassage:
    return IndexedPassage(base, item, HEAD, 0, title, (), (1, 1), text)


def snapshot_of(directory: Path, passages: Sequence[IndexedPassage]) -> Snapshot:
    index = LexicalIndex(directory)
    index.apply((), passages, HEAD)
    return index.snapshot()


def found(scores: LexicalScores) -> list[str]:
    """Items with a score, best first."""
    order = np.argsort(-scores.lexical, kind="stable")
    return [scores.passage(int(at)).item_id for at in order if scores.lexical[at] > 0]


def search(
    snapshot: Snapshot, text: str, exclude: Sequence[str] = (), items: frozenset[str] | None = None
) -> list[str]:
    query = parse_query(text, exclude)
    return found(Bm25(PostingsCache(CACHE_BYTES)).score(query, [Searched("base", snapshot, items)]))


@pytest.fixture(scope="module")
def shelf(tmp_path_factory: pytest.TempPathFactory) -> Snapshot:
    """One item per thing that people search for, named by it, and some that are merely near."""
    texts = {
        "cpp": "We compile the service with C++ since last year",
        "csharp": "The desktop client is written in C# and not in anything else",
        "c": "The kernel is plain C code",
        "dotnet": "Install the .NET runtime first",
        "net": "The net income of the year",
        "fsharp": "Some scripts are in F# now",
        "w2": "Send the form W-2 before February",
        "rnd": "Ask the R&D department",
        "foobar": "Set foo_bar to true in the settings",
        "foo": "A foo of its own",
        "err": "The server logs ERR-1234 when the disk is full",
        "ana": "Mention @ana in the review",
        "version": "Upgrade to v1.2.3 before the migration",
        "node": "The frontend runs on node.js in production",
        "hosts": "Add the name to /etc/hosts on every machine",
        "runtime": "It answers knowledge_runtime_disabled with status 503",
        "flag": "Call it with --include-knowledge to see both",
        "short": "Run it with -x to trace every command",
        "camel": "The handler calls getUserById twice",
        "mail": "Der Bericht liegt im Ordner",
        "vector": "我们使用向量数据库来存储文档",
        "tokyo": "東京都の日本語ドキュメントを検索する",
        "hangul": "서버를 재시작하는 방법을 설명합니다",
        "katakana": "データベースのバックアップ手順",
        "strasse": "Die Straße ist wegen Bauarbeiten gesperrt",
        "strasse-swiss": "Die Strasse ist wegen Bauarbeiten gesperrt",
        "groesse": "Die Größe der Datei steht im Kopf",
        "groesse-ascii": "Die Groesse der Datei steht im Kopf",
        "grosse": "Die grosse der Datei steht im Kopf",
        "ete": "On ferme en ete pour deux semaines",
        "été": "On ferme en été pour deux semaines",
        "school": "Elle va à l’école tous les matins",
        "steamer": "Die Donaudampfschifffahrtsgesellschaft wurde gegründet",
        "restarting": "Before restarting the daemon, drain the queue",
        "istanbul": "The office in İstanbul moved",
        "contraction": "You don’t need to reboot",
    }
    return snapshot_of(tmp_path_factory.mktemp("shelf") / "base", [passage(item, text) for item, text in texts.items()])


@pytest.mark.parametrize(
    ("query", "item"),
    [
        ("C++", "cpp"),
        ("c++", "cpp"),
        ("C#", "csharp"),
        ("C", "c"),
        (".NET", "dotnet"),
        ("net", "net"),
        ("F#", "fsharp"),
        ("W-2", "w2"),
        ("R&D", "rnd"),
        ("foo_bar", "foobar"),
        ("foo", "foo"),
        ("ERR-1234", "err"),
        ("ERR 1234", "err"),
        ("err1234", "err"),
        ("1234", "err"),
        ("@ana", "ana"),
        ("ana", "ana"),
        ("v1.2.3", "version"),
        ("1.2.3", "version"),
        ("node.js", "node"),
        ("node", "node"),
        ("/etc/hosts", "hosts"),
        ("etc/hosts", "hosts"),
        ("hosts", "hosts"),
        ("knowledge_runtime_disabled", "runtime"),
        ("KNOWLEDGE_RUNTIME_DISABLED", "runtime"),
        ("runtime disabled", "runtime"),
        ("--include-knowledge", "flag"),
        ("include-knowledge", "flag"),
        ("-x", "short"),
        ("getUserById", "camel"),
        ("getuserbyid", "camel"),
        ("user id", "camel"),
        ("向量", "vector"),
        ("向量数据库", "vector"),
        ("我", "vector"),
        ("库", "vector"),
        ("档", "vector"),
        ("日本語", "tokyo"),
        ("検索", "tokyo"),
        ("語", "tokyo"),
        ("서버", "hangul"),
        ("서버를 재시작", "hangul"),
        ("서", "hangul"),
        ("データベース", "katakana"),
        ("ﾃﾞｰﾀﾍﾞｰｽ", "katakana"),
        ("バックアップ手順", "katakana"),
        ("Straße", "strasse"),
        ("Strasse", "strasse-swiss"),
        ("Größe", "groesse"),
        ("Groesse", "groesse-ascii"),
        ("grosse", "grosse"),
        ("été", "été"),
        ("ete", "ete"),
        ("ETE", "ete"),
        ("l’école", "school"),
        ("l'ecole", "school"),
        ("école", "school"),
        ("ecole", "school"),
        ("Donaudampfschiff", "steamer"),
        ("dampfschiff", "steamer"),
        ("restart", "restarting"),
        ("restarts", "restarting"),
        ("istanbul", "istanbul"),
        ("ISTANBUL", "istanbul"),
        ("don't", "contraction"),
        ("dont", "contraction"),
    ],
)
def test_the_item_that_was_meant_is_first(shelf: Snapshot, query: str, item: str) -> None:
    assert search(shelf, query)[:1] == [item]


@pytest.mark.parametrize(
    ("query", "items"),
    [
        ("Straße", {"strasse", "strasse-swiss"}),
        ("Strasse", {"strasse", "strasse-swiss"}),
        ("Größe", {"groesse", "groesse-ascii", "grosse"}),
        ("Groesse", {"groesse", "groesse-ascii"}),
        ("grosse", {"groesse", "grosse"}),
        ("été", {"ete", "été"}),
        ("foo", {"foo", "foobar"}),
    ],
)
def test_other_spellings_and_wholes_are_found_as_well(shelf: Snapshot, query: str, items: set[str]) -> None:
    assert set(search(shelf, query)) == items


@pytest.mark.parametrize(
    "query", ["", " ", '"', '""', "***", "?", "!!!", "()", "\x00", "\ud800", "。、", "- --", "//", '"-"']
)
def test_a_query_without_a_usable_token_finds_nothing(shelf: Snapshot, query: str) -> None:
    assert search(shelf, query) == []
    assert len(Bm25(PostingsCache(CACHE_BYTES)).score(parse_query(query), [Searched("base", shelf)]).lexical) == 36


@pytest.mark.parametrize(
    "query",
    [
        'disk "open phrase',
        "disk AND",
        "disk OR NOT",
        "a:disk",
        "[disk TO",
        "disk\\",
        "disk*",
        "disk~2",
        "disk^9",
        "NOT NOT } disk",
        "-disk",
        "--disk",
        "url: disk",
        "disk" + " x" * 2_500,
        'disk"',
        '6" disk 7" pipe',
    ],
)
def test_signs_that_are_operators_elsewhere_are_not_here(shelf: Snapshot, query: str) -> None:
    assert "err" in search(shelf, query)


@pytest.mark.parametrize(
    ("query", "items"),
    [
        ('"disk is full"', ["err"]),
        ('"DISK IS"', ["err"]),
        ('"is disk"', []),
        ('"disk full"', []),
        ("“disk is full”", ["err"]),
        ('logs "disk is"', ["err"]),
        ('"disk is" "server logs"', ["err"]),
        ('"disk is" "runs on"', []),
        ('"ERR-1234"', ["err"]),
        ('"C++"', ["cpp"]),
        ('"with C++ since"', ["cpp"]),
        ('"ist wegen"', ["strasse", "strasse-swiss"]),
        ('"die straße ist"', ["strasse", "strasse-swiss"]),
        ('"向量数据"', ["vector"]),
        ('"向数"', []),
        ('"数据向量"', []),
        ('"使用向量"', ["vector"]),
        ('"日本語"', ["tokyo"]),
        ('"の"', ["katakana", "tokyo"]),
        ('"서버를 재시작"', ["hangul"]),
        ('"재시작 서버를"', []),
        ('"nowhere at all"', []),
        ('中"向量"文', ["vector"]),
    ],
)
def test_a_quoted_phrase_must_occur(shelf: Snapshot, query: str, items: list[str]) -> None:
    assert sorted(search(shelf, query)) == items


@pytest.mark.parametrize(
    ("exclude", "items"),
    [
        ([], {"strasse", "strasse-swiss", "groesse", "groesse-ascii", "grosse", "steamer"}),
        (["datei"], {"strasse", "strasse-swiss", "steamer"}),
        (["Straße"], {"groesse", "groesse-ascii", "grosse", "steamer"}),
        (["wegen bauarbeiten"], {"groesse", "groesse-ascii", "grosse", "steamer"}),
        (["bauarbeiten wegen"], {"strasse", "strasse-swiss", "groesse", "groesse-ascii", "grosse", "steamer"}),
        (["datei", "gesperrt"], {"steamer"}),
        (["", "***"], {"strasse", "strasse-swiss", "groesse", "groesse-ascii", "grosse", "steamer"}),
    ],
)
def test_what_is_excluded_does_not_occur(shelf: Snapshot, exclude: list[str], items: set[str]) -> None:
    assert set(search(shelf, "die", exclude)) == items


def test_what_is_ruled_out_is_not_among_the_scored(shelf: Snapshot) -> None:
    scores = Bm25(PostingsCache(CACHE_BYTES)).score(parse_query("die", ["die"]), [Searched("base", shelf)])
    assert len(scores.lexical) == len(scores.rows) == len(scores.item) == 36 - 6
    assert scores.lexical.max() == 0


def test_a_symbol_is_excluded_as_such(shelf: Snapshot) -> None:
    assert "c" in search(shelf, "c", ["C++"])
    assert "cpp" not in search(shelf, "c", ["C++"])


def test_words_that_occur_are_not_expanded(tmp_path: Path) -> None:
    snapshot = snapshot_of(tmp_path / "base", [passage("one", "restart it"), passage("two", "restarting restarted")])
    assert search(snapshot, "restart") == ["one"]


def test_a_title_weighs_more_than_the_text(tmp_path: Path) -> None:
    snapshot = snapshot_of(
        tmp_path / "base",
        [passage("text", "rollback and more", "Words"), passage("title", "words and more", "Rollback")],
    )
    assert search(snapshot, "rollback") == ["title", "text"]


def test_phrases_do_not_reach_from_the_title_into_the_text(tmp_path: Path) -> None:
    snapshot = snapshot_of(tmp_path / "base", [passage("one", "after lunch", "Rollback")])
    assert search(snapshot, '"rollback after"') == []
    assert search(snapshot, '"rollback"') == ["one"]


# --- arithmetic ------------------------------------------------------------------------------------------------------

WORDS = ["alpha", "beta", "gamma", "delta"]
TEXTS = st.lists(st.lists(st.sampled_from(WORDS), min_size=1, max_size=12), min_size=1, max_size=8)


def textbook(texts: Sequence[Sequence[str]], query: Sequence[str]) -> list[float]:
    """BM25 word by word, as the formula reads."""
    average = sum(map(len, texts)) / len(texts)
    scores = []
    for text in texts:
        score = 0.0
        for word in query:
            holding = sum(word in other for other in texts)
            idf = math.log(1 + (len(texts) - holding + 0.5) / (holding + 0.5))
            frequency = text.count(word)
            score += idf * frequency * (K1 + 1) / (frequency + K1 * (1 - B + B * len(text) / average))
        scores.append(score)
    return scores


@settings(max_examples=30, deadline=None)
@given(TEXTS, st.lists(st.sampled_from([*WORDS, "zeta"]), min_size=1, max_size=4))
def test_scores_are_the_textbooks_and_never_exceed_the_bound(
    tmp_path_factory: pytest.TempPathFactory, texts: list[list[str]], query: list[str]
) -> None:
    directory = tmp_path_factory.mktemp("bm25") / "base"
    snapshot = snapshot_of(directory, [passage(str(at), " ".join(words)) for at, words in enumerate(texts)])
    scores = Bm25(PostingsCache(CACHE_BYTES)).score(parse_query(" ".join(query)), [Searched("base", snapshot)])
    got = {scores.passage(at).item_id: float(scores.lexical[at]) for at in range(len(scores.lexical))}
    assert [got[str(at)] for at in range(len(texts))] == pytest.approx(textbook(texts, query), rel=1e-5)
    assert max(got.values()) <= scores.bound * (1 + 1e-6)


def test_the_bound_counts_words_that_occur_nowhere(shelf: Snapshot) -> None:
    scorer = Bm25(PostingsCache(CACHE_BYTES))
    one = scorer.score(parse_query("disk"), [Searched("base", shelf)])
    two = scorer.score(parse_query("disk xyzzy"), [Searched("base", shelf)])
    assert two.bound == pytest.approx(one.bound + math.log(1 + 36.5 / 0.5) * (K1 + 1))
    assert two.lexical.max() == one.lexical.max()


def test_a_word_said_twice_weighs_twice(shelf: Snapshot) -> None:
    scorer = Bm25(PostingsCache(CACHE_BYTES))
    one = scorer.score(parse_query("disk"), [Searched("base", shelf)])
    two = scorer.score(parse_query("disk Disk"), [Searched("base", shelf)])
    assert two.lexical.max() == pytest.approx(2 * one.lexical.max())


def test_symbols_do_not_make_a_passage_look_longer(tmp_path: Path) -> None:
    snapshot = snapshot_of(tmp_path / "base", [passage("plain", "one two"), passage("symbol", "one_two")])
    (live_segment,) = snapshot.segments
    assert live_segment.segment.lengths.tolist() == [2, 2]


# --- scope -----------------------------------------------------------------------------------------------------------


def test_statistics_come_from_the_bases_in_scope_only(tmp_path: Path) -> None:
    mine = snapshot_of(tmp_path / "mine", [passage("one", "alpha beta"), passage("two", "beta gamma")])
    theirs = snapshot_of(tmp_path / "theirs", [passage(f"other-{at}", "alpha " * 30) for at in range(20)])
    scorer = Bm25(PostingsCache(CACHE_BYTES))
    before = scorer.score(parse_query("alpha beta"), [Searched("mine", mine)])
    both = scorer.score(parse_query("alpha beta"), [Searched("mine", mine), Searched("theirs", theirs)])
    after = scorer.score(parse_query("alpha beta"), [Searched("mine", mine)])
    assert before.lexical.tolist() == after.lexical.tolist()
    assert before.bound == after.bound != both.bound
    assert len(both.lexical) == 22


def test_passages_know_their_base_and_items_of_different_bases_differ(tmp_path: Path) -> None:
    one = snapshot_of(tmp_path / "one", [passage("same", "alpha"), passage("same", "alpha")])
    two = snapshot_of(tmp_path / "two", [passage("same", "alpha")])
    scores = Bm25(PostingsCache(CACHE_BYTES)).score(parse_query("alpha"), [Searched("one", one), Searched("two", two)])
    assert [scores.passage(at).base for at in range(3)] == ["one", "one", "two"]
    assert scores.item[0] == scores.item[1] != scores.item[2]
    assert scores.collection.starts == [0, 2]


def test_items_that_are_not_allowed_are_not_scored(shelf: Snapshot) -> None:
    assert search(shelf, "die", items=frozenset({"strasse", "err", "unknown"})) == ["strasse"]
    assert search(shelf, "die", items=frozenset()) == []


def test_no_base_is_an_empty_answer() -> None:
    scores = Bm25(PostingsCache(CACHE_BYTES)).score(parse_query("alpha"), [])
    assert (len(scores.lexical), len(scores.item), scores.bound > 0) == (0, 0, True)


def test_an_empty_base_is_an_empty_answer(tmp_path: Path) -> None:
    snapshot = LexicalIndex(tmp_path / "base").snapshot()
    scores = Bm25(PostingsCache(CACHE_BYTES)).score(parse_query('alpha "beta"', ["x"]), [Searched("base", snapshot)])
    assert len(scores.lexical) == 0


STEPS = st.lists(
    st.dictionaries(
        st.sampled_from("abcdef"), st.lists(st.sampled_from([*WORDS, "向量", "alphabet"]), max_size=6), max_size=4
    ),
    min_size=1,
    max_size=5,
)
QUERIES = st.sampled_from(["alpha beta", '"alpha beta" gamma', "向", "alph", "delta -beta", "alphab"])


@settings(max_examples=30, deadline=None)
@given(STEPS, QUERIES)
def test_an_index_built_in_steps_ranks_like_one_built_at_once(
    tmp_path_factory: pytest.TempPathFactory, steps: list[dict[str, list[str]]], query: str
) -> None:
    directory = tmp_path_factory.mktemp("steps")
    stepwise = LexicalIndex(directory / "stepwise")
    final: dict[str, str] = {}
    for step in steps:
        added = {item: " ".join(words) for item, words in step.items() if words}
        stepwise.apply(step.keys(), [passage(item, text) for item, text in added.items()], HEAD)
        final = {item: text for item, text in final.items() if item not in step} | added
    at_once = snapshot_of(directory / "at-once", [passage(item, text) for item, text in final.items()])

    def scored(snapshot: Snapshot) -> tuple[dict[str, float], float]:
        scores = Bm25(PostingsCache(CACHE_BYTES)).score(parse_query(query, ["delta"]), [Searched("base", snapshot)])
        return {
            scores.passage(at).item_id: float(scores.lexical[at]) for at in range(len(scores.lexical))
        }, scores.bound

    scores, bound = scored(stepwise.snapshot())
    expected_scores, expected_bound = scored(at_once)
    assert scores == pytest.approx(expected_scores, rel=1e-5)
    assert bound == pytest.approx(expected_bound)


# --- any input, bounded memory ---------------------------------------------------------------------------------------


@settings(max_examples=200, deadline=None)
@given(st.text(st.characters(exclude_categories=()), max_size=80) | st.text("\"-+*C+#._/'向é ", max_size=40))
def test_any_text_is_a_query(shelf: Snapshot, text: str) -> None:
    scores = Bm25(PostingsCache(CACHE_BYTES)).score(parse_query(text, [text[:7]]), [Searched("base", shelf)])
    assert len(scores.lexical) == len(scores.item) == len(scores.rows) <= 36
    assert np.isfinite(scores.lexical).all()
    assert scores.bound > 0
    assert (scores.lexical <= scores.bound * (1 + 1e-5)).all()


def test_memory_for_postings_is_bounded_and_answers_do_not_depend_on_it(shelf: Snapshot) -> None:
    small = PostingsCache(1_000)
    scorer = Bm25(small)
    for query in ("die datei", '"ist wegen"', "向", "dampfschiff"):
        scores = scorer.score(parse_query(query), [Searched("base", shelf)])
        assert small.nbytes <= 1_000
        assert found(scores) == search(shelf, query)


def test_a_long_query_is_ranked_by_its_first_terms(shelf: Snapshot) -> None:
    query = parse_query(" ".join(f"word{at}" for at in range(100_000)))
    assert len(query.terms) == 256


@pytest.mark.parametrize("part", ["[", '"', "a-", 'a" ', '"a" ', '"a b', "ä-", "漢", "a/b.c_", "word ", "\u201c"])
def test_time_to_parse_is_linear_in_the_length_of_any_query(part: str) -> None:
    assert not grows_too_fast(lambda text: parse_query(text, [text]), repeated(part))


def test_a_phrase_is_found_across_the_parts_of_a_name_and_a_name_is_one_word_of_a_phrase(tmp_path: Path) -> None:
    names = {"quota": "the alert etcdBackendQuotaLowSpace fires", "actions": "run GitHub Actions here"}
    snapshot = snapshot_of(tmp_path, [passage(item, text) for item, text in names.items()])
    for phrase, expected in (
        ("quota low space", ["quota"]),
        ("backend quota", ["quota"]),
        ("github actions", ["actions"]),
        ("GitHub Actions", ["actions"]),
        ("low quota", []),
        ("alert etcd", []),
    ):
        assert search(snapshot, f'"{phrase}"') == expected, phrase
