"""Verdicts on citations: what each state means, that Git's own tools agree, and that nothing hidden is told."""

from __future__ import annotations

import random
import subprocess
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from kbgit.access import Principal, Role
from kbgit.assemble import Runtime
from kbgit.base import BaseKey
from kbgit.citation import Citation
from kbgit.importing import BaseOptions, Importer
from kbgit.library.citing import quote_hash
from kbgit.library.request import SearchRequest
from kbgit.library.verdict import Reason, State, Verdict
from kbgit.library.verifying import Verifying
from kbgit.passage import split_passages
from tests.library.conftest import reader_of
from tests.library.oracle import Oracle, lines_of
from tests.library.publishing import publish
from tests.writing import WRITER_ENVIRONMENT, text

READER = reader_of("team:a", "team:b")
MEMBER = Principal("mia", {"team:a": Role.MEMBER})
BODY = """\
# Deploying

Before anything else, tell the people on duty.

## Checks

1. The build is green on the main branch.
2. The database was saved less than an hour ago.

## Rollback

Run the rollback script with the previous version.
Then look at the dashboard for ten minutes.
"""


@pytest.fixture
def verify(runtime: Runtime) -> Callable[..., Verdict]:
    """Verifies one citation."""

    def one(citation: Citation | str, caller: Principal | None = READER, **options: object) -> Verdict:
        return Verifying(runtime.catalogue, runtime.indexer).verify([citation], caller, **options)[0]  # type: ignore[arg-type]

    return one


@dataclass
class Deploying:
    """The item `deploying` of a base of team a, with one publication."""

    runtime: Runtime
    key: BaseKey
    path: str = "deploying.md"
    pins: list[str] = field(default_factory=list)

    def edit(self, body: str, **fields: str) -> str:
        self.pins.append(publish(self.runtime, self.key, {self.path: text(id="deploying", body=body, **fields)}))
        return self.pins[-1]

    def cite(self, start: int = 0, end: int = 0, pin: int = 0) -> Citation:
        return Citation("deploying", self.pins[pin], (start, end) if start else None)


@pytest.fixture
def deploying(runtime: Runtime, imported: Callable[..., BaseKey]) -> Deploying:
    key = imported({"other.md": text("Other")}, space="team:a")
    made = Deploying(runtime, key)
    made.edit(BODY)
    return made


# States


def test_a_citation_of_the_current_revision_is_exact(deploying: Deploying, verify: Callable[..., Verdict]) -> None:
    for cited in (deploying.cite(), deploying.cite(7, 8)):
        verdict = verify(cited)
        assert (verdict.state, verdict.current, verdict.holds) == (State.EXACT, cited, True)


def test_lines_that_are_still_in_their_place_are_exact_in_the_new_revision(
    deploying: Deploying, verify: Callable[..., Verdict]
) -> None:
    new = deploying.edit(BODY.replace("ten minutes", "an hour"))
    assert verify(deploying.cite(7, 8)).current == Citation("deploying", new, (7, 8))
    assert verify(deploying.cite(7, 8)).state is State.EXACT


def test_a_change_of_front_matter_alone_leaves_every_citation_exact(
    deploying: Deploying, verify: Callable[..., Verdict]
) -> None:
    new = deploying.edit(BODY, owner="platform", tags="[deploy]")
    assert verify(deploying.cite()).state is State.EXACT
    assert verify(deploying.cite()).current == Citation("deploying", new)
    assert verify(deploying.cite(12, 13)).current == Citation("deploying", new, (12, 13))


def test_lines_that_stand_elsewhere_have_moved(deploying: Deploying, verify: Callable[..., Verdict]) -> None:
    new = deploying.edit(BODY.replace("## Checks", "A new paragraph.\n\n## Checks"))
    verdict = verify(deploying.cite(7, 8))
    assert (verdict.state, verdict.current) == (State.MOVED, Citation("deploying", new, (9, 10)))
    assert verdict.holds
    assert not verdict.differences


def test_a_section_that_was_moved_across_others_has_moved(deploying: Deploying, verify: Callable[..., Verdict]) -> None:
    before, checks, rollback = BODY.partition("## Checks")[0], *BODY.partition("## Checks")[2].split("## Rollback")
    deploying.edit(f"{before}## Rollback{rollback}\n## Checks{checks.rstrip()}\n")
    for lines in ((7, 8), (10, 13)):
        verdict = verify(deploying.cite(*lines))
        assert verdict.state in (State.MOVED, State.EXACT)
        assert verdict.current is not None
        assert verdict.current.lines is not None
        assert verdict.current.lines[1] - verdict.current.lines[0] == lines[1] - lines[0]


def test_an_equal_line_elsewhere_does_not_stand_in_for_one_that_is_gone(
    deploying: Deploying, verify: Callable[..., Verdict]
) -> None:
    deploying.edit("start {\n    first\n}\n\nmiddle {\n    second\n}\n")
    deploying.edit("middle {\n    second\n}\n")
    first, second = verify(deploying.cite(3, 3, pin=1)), verify(deploying.cite(7, 7, pin=1))
    assert second.state is State.MOVED
    assert second.current is not None
    assert second.current.lines == (3, 3)
    assert first.state is State.EXACT  # line 3 is the same text, whichever brace it was
    assert verify(deploying.cite(1, 3, pin=1)).state is State.CHANGED


def test_changed_lines_come_with_their_place_and_the_difference_by_section(
    deploying: Deploying, verify: Callable[..., Verdict]
) -> None:
    changed = (
        BODY.replace("less than an hour", "less than a day").replace("Then look", "Look").replace("people", "ones")
    )
    new = deploying.edit(changed)
    verdict = verify(deploying.cite(5, 13))
    assert (verdict.state, verdict.current) == (State.CHANGED, Citation("deploying", new, (5, 13)))
    assert not verdict.holds
    assert [(part.section, part.text) for part in verdict.differences] == [
        (
            ("Deploying", "Checks"),
            "@@ -8 +8 @@\n-2. The database was saved less than an hour ago.\n"
            "+2. The database was saved less than a day ago.\n",
        ),
        (
            ("Deploying", "Rollback"),
            "@@ -13 +13 @@\n-Then look at the dashboard for ten minutes.\n+Look at the dashboard for ten minutes.\n",
        ),
    ]
    assert not verify(deploying.cite(5, 13), differences=False).differences


def test_a_line_inserted_between_cited_lines_changes_the_citation(
    deploying: Deploying, verify: Callable[..., Verdict]
) -> None:
    deploying.edit(BODY.replace("2. The", "3. Nobody is asleep at the wheel.\n2. The"))
    assert verify(deploying.cite(7, 8)).state is State.CHANGED
    current = verify(deploying.cite(7, 8)).current
    assert current is not None
    assert current.lines == (7, 9)
    assert verify(deploying.cite(7, 7)).state is State.EXACT
    assert verify(deploying.cite(8, 8)).state is State.MOVED


def test_lines_that_are_gone_have_no_place(deploying: Deploying, verify: Callable[..., Verdict]) -> None:
    deploying.edit(BODY.replace("Then look at the dashboard for ten minutes.\n", ""))
    verdict = verify(deploying.cite(13, 13))
    assert (verdict.state, verdict.current) == (State.CHANGED, None)
    assert verdict.as_json()["current"] is None
    assert verdict.differences[0].text == "@@ -13 +12,0 @@\n-Then look at the dashboard for ten minutes.\n"


def test_a_whole_item_that_changed_is_superseded(deploying: Deploying, verify: Callable[..., Verdict]) -> None:
    new = deploying.edit("Something else.\n")
    verdict = verify(deploying.cite())
    assert (verdict.state, verdict.current, verdict.holds) == (State.SUPERSEDED, Citation("deploying", new), False)


def test_a_renamed_item_keeps_its_citations(deploying: Deploying, verify: Callable[..., Verdict]) -> None:
    new = publish(
        deploying.runtime, deploying.key, {deploying.path: None, "guides/d.md": text(id="deploying", body=BODY)}
    )
    verdict = verify(deploying.cite(7, 8))
    assert (verdict.state, verdict.current) == (State.EXACT, Citation("deploying", new, (7, 8)))
    assert verdict.locator == "guides/d.md"


@pytest.mark.parametrize("lines", [(0, 0), (7, 8)])
def test_archived_unpublished_and_deleted_items_are_told_apart(
    deploying: Deploying, verify: Callable[..., Verdict], lines: tuple[int, int]
) -> None:
    cited = deploying.cite(*lines)
    deploying.edit(BODY, status="archived")
    assert (verify(cited).state, verify(cited).reason) == (State.ARCHIVED, Reason.ITEM)
    assert verify(cited, MEMBER).state is State.ARCHIVED
    deploying.edit(BODY, status="draft")
    assert (verify(cited).state, verify(cited).reason) == (State.ARCHIVED, Reason.UNPUBLISHED)
    assert verify(cited, MEMBER).state is State.EXACT
    publish(deploying.runtime, deploying.key, {"base.yaml": "status: archived\n"})
    assert (verify(cited).state, verify(cited).reason) == (State.ARCHIVED, Reason.BASE)
    assert verify(cited).as_json()["base"]["status"] == "archived"
    publish(deploying.runtime, deploying.key, {deploying.path: None, "base.yaml": None})
    verdict = verify(cited)
    assert (verdict.state, verdict.reason, verdict.current, verdict.holds) == (State.DELETED, None, None, False)


@pytest.mark.parametrize(
    "malformed",
    ["", "nonsense", "knowledge:deploying", "knowledge:deploying@abc", f"knowledge:d@{'A' * 40}", "knowledge:@" + "0" * 40,
     f"knowledge:d@{'0' * 40}#L9-L2", f"knowledge:d@{'0' * 40}#L0", "knowledge:\ud800@" + "0" * 40],
)  # fmt: skip
def test_what_is_no_pinned_citation_is_malformed(verify: Callable[..., Verdict], malformed: str) -> None:
    verdict = verify(malformed)
    assert (verdict.text, verdict.state, verdict.reason) == (malformed, State.UNKNOWN, Reason.MALFORMED)
    assert verdict.as_json() == {"citation": malformed, "state": "unknown", "holds": False, "reason": "malformed"}


def test_lines_that_the_revision_does_not_have_are_unknown(
    deploying: Deploying, verify: Callable[..., Verdict]
) -> None:
    count = len(lines_of(BODY))
    assert verify(deploying.cite(count, count)).state is State.EXACT
    verdict = verify(deploying.cite(count, count + 1))
    assert (verdict.state, verdict.reason) == (State.UNKNOWN, Reason.NO_SUCH_LINES)
    deploying.edit(BODY + "More.\n" * 10)
    assert verify(deploying.cite(count, count + 1)).reason is Reason.NO_SUCH_LINES


def test_the_last_line_end_makes_no_difference(deploying: Deploying, verify: Callable[..., Verdict]) -> None:
    deploying.edit(BODY.rstrip("\n"))
    assert verify(deploying.cite(12, 13)).state is State.EXACT
    deploying.edit("New first line\n" + BODY.rstrip("\n"))
    assert verify(deploying.cite(13, 13)).state is State.MOVED


def test_an_item_without_text_has_one_line(deploying: Deploying, verify: Callable[..., Verdict]) -> None:
    deploying.edit("")
    assert verify(deploying.cite(1, 1, pin=1)).state is State.EXACT
    assert verify(deploying.cite(1, 2, pin=1)).reason is Reason.NO_SUCH_LINES
    deploying.edit("Now there is text.\n")
    assert verify(deploying.cite(1, 1, pin=1)).state is State.CHANGED


# Access


def test_what_is_hidden_is_unknown_like_what_does_not_exist(
    runtime: Runtime, imported: Callable[..., BaseKey], verify: Callable[..., Verdict]
) -> None:
    key = imported({"secret.md": text("Secret", id="secret", body="one\n")}, "hidden", "team:c")
    draft = imported({"draft.md": text("Draft", id="draft", status="draft", body="one\n")}, space="team:a")
    hidden = Citation("secret", runtime.home.repository(key).head(), (1, 1))
    unpublished = Citation("draft", runtime.home.repository(draft).head(), (1, 1))
    absent = Citation("nothing", hidden.revision, (1, 1))
    other_pin = Citation("secret", "0" * 40, (1, 1))
    too_long = hidden.with_lines(1, 900)
    for caller in (READER, reader_of("team:z"), None):
        said = []
        for citation in (absent, hidden, unpublished, other_pin, too_long):
            verdict = verify(citation, caller)
            assert (verdict.state, verdict.reason) == (State.UNKNOWN, Reason.NOT_FOUND)
            said.append(verdict.as_json() | {"citation": ""})
        assert all(one == said[0] for one in said)
    assert verify(hidden, reader_of("team:c")).state is State.EXACT
    assert verify(unpublished, MEMBER).state is State.EXACT


def test_a_reader_is_not_told_of_revisions_that_were_never_published(
    deploying: Deploying, verify: Callable[..., Verdict]
) -> None:
    deploying.edit("A draft on the published branch.\n", status="draft")
    assert verify(deploying.cite(pin=1)).reason is Reason.NOT_FOUND
    assert verify(deploying.cite(pin=1), MEMBER).state is State.EXACT
    verdict = verify(deploying.cite(1, 3))
    assert (verdict.state, verdict.current, verdict.differences) == (State.ARCHIVED, None, ())


def test_a_revision_in_two_bases_is_verified_where_its_item_is_alive(
    runtime: Runtime, imported: Callable[..., BaseKey], verify: Callable[..., Verdict]
) -> None:
    key = imported({"a.md": text(id="shared", body="one\n")}, "one", "team:a")
    pin = runtime.home.repository(key).head()
    fork = BaseKey("team:b", "two")
    source = str(runtime.home.repository(key).path)
    Importer(runtime.home, runtime.catalogue, "ada").from_repository(fork, source, BaseOptions())
    publish(runtime, key, {"a.md": None})
    verdict = verify(Citation("shared", pin, (1, 1)))
    assert verdict.state is State.EXACT
    assert verdict.base is not None
    assert verdict.base.key == fork
    assert verify(Citation("shared", pin, (1, 1)), reader_of("team:a")).state is State.DELETED


# Quotes


def test_the_hash_of_a_quote_is_compared_with_the_cited_lines(
    deploying: Deploying, verify: Callable[..., Verdict]
) -> None:
    cited = deploying.cite(7, 8)
    own = quote_hash("\n".join(lines_of(BODY)[6:8]))
    assert verify(cited).quote_hash == own
    assert verify(cited).quote_matches is None
    assert verify(cited, quote_hashes={str(cited): own}).quote_matches is True
    deploying.edit("Something else.\n")
    assert verify(cited, quote_hashes={str(cited): own}).quote_matches is True  # it is a matter of the cited revision
    misquoted = verify(deploying.cite(1, 1, pin=1), quote_hashes={str(deploying.cite(1, 1, pin=1)): quote_hash("Else")})
    assert (misquoted.state, misquoted.quote_matches, misquoted.holds) == (State.EXACT, False, False)
    whole = deploying.cite()
    content_hash = verify(whole).quote_hash
    assert content_hash == quote_hash(BODY)
    assert verify(whole, quote_hashes={str(whole): content_hash}).quote_matches is True


def test_the_passages_that_a_search_gives_match_their_citations(
    deploying: Deploying, runtime: Runtime, verify: Callable[..., Verdict]
) -> None:
    deploying.edit(BODY + "\n## Long\n\n" + "One sentence of a line too long for one passage. " * 200 + "\n")
    for result in runtime.library.search(SearchRequest(query="rollback sentence dashboard", limit=5), READER).results:
        given = quote_hash(result.content or "")
        assert verify(result.citation, quote_hashes={str(result.citation): given}).quote_matches is True
    long_line = [part for part in split_passages(BODY + "\n" + "Sentence. " * 2000) if part.start_line == 15]
    assert len({(part.start_line, part.end_line) for part in long_line}) < len(long_line)


# Many


def test_verdicts_come_in_the_order_of_the_citations_whatever_their_base(
    runtime: Runtime, imported: Callable[..., BaseKey]
) -> None:
    keys = [
        imported({f"{n}.md": text(id=f"{slug}{n}", body="one\ntwo\n") for n in range(5)}, slug, "team:a")
        for slug in ("x", "y")
    ]
    pins = {key.slug: runtime.home.repository(key).head() for key in keys}
    publish(runtime, keys[0], {"3.md": text(id="x3", body="zero\none\ntwo\n")})
    asked: list[str | Citation] = [Citation(f"{slug}{n}", pins[slug], (2, 2)) for n in range(5) for slug in ("y", "x")]
    asked.insert(4, "nonsense")
    asked += asked[:3]
    verdicts = Verifying(runtime.catalogue, runtime.indexer).verify(asked, READER)
    assert [verdict.text for verdict in verdicts] == [str(citation) for citation in asked]
    states = {verdict.text: verdict.state for verdict in verdicts}
    assert states.pop("nonsense") is State.UNKNOWN
    assert states.pop(f"knowledge:x3@{pins['x']}#L2-L2") is State.MOVED
    assert set(states.values()) == {State.EXACT}
    assert Verifying(runtime.catalogue, runtime.indexer).verify([], READER) == []


# The oracle

WORDS = ("deploy", "rollback", "server", "queue", "token", "answer", "Schlüssel", "段落", "review", "limit")
FILLER = ("", "", "}", "---", "- item", "## Steps", "see below", "# Top", "    return value", "```")


@dataclass
class Life:
    """An item of a random history: its revisions (mark, content) as they were made, and how it is now."""

    name: str
    path: str
    content: list[str]
    status: str = "published"
    exists: bool = True
    revisions: list[tuple[int, str]] = field(default_factory=list)

    @property
    def body(self) -> str:
        return "".join(f"{line}\n" for line in self.content)


def some_line(chance: random.Random) -> str:
    if chance.random() < 0.4:
        return chance.choice(FILLER)
    return " ".join(chance.choice(WORDS) for _ in range(chance.randint(1, 5)))


def edit(chance: random.Random, lines: list[str]) -> list[str]:
    """`lines` after an edit: something inserted, removed, replaced, moved or doubled."""
    lines = list(lines)
    start = chance.randint(0, len(lines))
    end = min(len(lines), start + chance.randint(1, 6))
    block = lines[start:end]
    kind = chance.choice(("insert", "delete", "replace", "move", "double", "nothing"))
    if kind in ("delete", "replace", "move"):
        del lines[start:end]
    if kind in ("insert", "replace"):
        lines[start:start] = [some_line(chance) for _ in range(chance.randint(1, 5))]
    if kind in ("move", "double"):
        place = chance.randint(0, len(lines))
        lines[place:place] = block
    return lines


def random_history(seed: int, directory: Path, commits: int) -> tuple[list[Life], list[str]]:
    """A repository of `commits` commits that edit, rename, archive, remove and restore items. The items, and the SHAs."""
    chance = random.Random(seed)
    lives = [Life(f"item-{n}", f"{n}.md", [some_line(chance) for _ in range(chance.randint(0, 40))]) for n in range(6)]
    stream = []
    for mark in range(1, commits + 1):
        life = lives[mark - 1] if mark <= len(lives) else chance.choice(lives)
        old_path, what = life.path, chance.random()
        if mark > len(lives):
            if what < 0.08:
                life.path = f"{chance.choice('abc')}/{life.name}-{mark}.md"
            elif what < 0.14:
                life.status = chance.choice(("archived", "draft")) if life.status == "published" else "published"
            elif what < 0.18:
                life.exists = not life.exists
            else:
                life.exists, life.status = True, "published"
            life.content = edit(chance, life.content)
        stream.append(f"commit refs/heads/main\nmark :{mark}\ncommitter Ada <a@example.org> {mark} +0000\ndata 0\n")
        stream.append(f"from :{mark - 1}\n" if mark > 1 else "")
        stream.append(f"D {old_path}\n" if mark > 1 else "")
        if life.exists:
            raw = text(life.name, id=life.name, status=life.status, body=life.body, mark=str(mark))
            stream.append(f"M 100644 inline {life.path}\ndata {len(raw.encode())}\n{raw}\n")
            if life.status == "published":
                life.revisions.append((mark, life.body))
    stream.append("done\n")
    subprocess.run(["git", "init", "--quiet", "--bare", "--initial-branch=main", directory], check=True)
    marks = directory / "marks"
    subprocess.run(
        ["git", "-C", directory, "fast-import", "--quiet", "--done", f"--export-marks={marks}"],
        input="".join(stream).encode(),
        env=WRITER_ENVIRONMENT,
        check=True,
    )
    shas = dict(line.split() for line in marks.read_text().splitlines())
    return lives, ["", *(shas[f":{mark}"] for mark in range(1, commits + 1))]


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_verdicts_equal_those_of_blame_and_diff(runtime: Runtime, tmp_path: Path, seed: int) -> None:
    lives, shas = random_history(seed, tmp_path / "source.git", commits=120)
    key = BaseKey("team:a", "random")
    Importer(runtime.home, runtime.catalogue, "ada").from_repository(key, str(tmp_path / "source.git"), BaseOptions())
    oracle = Oracle(tmp_path / "oracle.git")
    chance = random.Random(seed)
    asked: list[tuple[Life, Citation, str]] = []
    for life in lives:
        for mark, content in life.revisions:
            for _ in range(6):
                start = chance.randint(1, max(1, len(lines_of(content))))
                end = start + chance.choice((0, 0, 1, 2, 4, 8))
                asked.append((life, Citation(life.name, shas[mark], (start, end)), content))
    chance.shuffle(asked)
    verdicts = Verifying(runtime.catalogue, runtime.indexer).verify([citation for _, citation, _ in asked], READER)
    seen = set()
    for (life, citation, content), verdict in zip(asked, verdicts, strict=True):
        assert citation.lines is not None
        start, end = citation.lines
        where = f"{citation} in\n{content}\nnow\n{life.body}"
        if end > len(lines_of(content)):
            expected = "unknown"
        elif not life.exists:
            expected = "deleted"
        elif life.status != "published":
            expected = "archived"
        else:
            answer = oracle.answer(content, life.body, start, end)
            assert (verdict.state.value, verdict.current.lines if verdict.current else None) == (
                answer.state,
                answer.lines,
            ), where
            if answer.state == "changed" and chance.random() < 0.2:
                removed, added = oracle.difference(content, life.body, start, end)
                rows = [row for part in verdict.differences for row in part.text.split("\n")]
                assert sorted(row[1:] for row in rows if row[:1] == "-") == sorted(removed), where
                assert sorted(row[1:] for row in rows if row[:1] == "+") == sorted(added), where
            expected = answer.state
        assert verdict.state.value == expected, where
        seen.add(expected)
    assert {"exact", "moved", "changed", "unknown"} <= seen
