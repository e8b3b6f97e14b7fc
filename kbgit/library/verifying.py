"""Verifying citations: what became of the cited lines.

A citation names a revision, so it resolves for ever; verifying it asks whether what it cites still stands, in the item's
present revision (`current`: the published one; for those who may see drafts, also one that is a draft).

- `exact`: the cited lines (or, of a citation without lines, the whole content) are byte for byte the same in the same
  place, or the citation cites `current` itself. `current`: the same place there.
- `moved`: the cited lines stand together elsewhere in it. `current`: that place.
- `changed`: some of the cited lines were changed or removed, or something was inserted between them. `current`: the lines
  that stand in their place, if there are any. With the difference by section.
- `superseded`: a citation without lines, and the content is another now. `current`: the item's revision.
- `archived`: the item is archived or unpublished, or its base is archived; the pin still resolves.
- `deleted`: the item's file was removed; the pin still resolves.
- `unknown`: the citation is malformed or has no revision (reason `malformed`), or names nothing that the caller may see,
  be it hidden or absent (`not_found`), or lines that its revision does not have (`no_such_lines`).

Front matter takes no part: a change of a tag or of the title leaves every citation `exact`. Lines are *the same lines* if
`git diff` and `git blame` pair them, so an equal line elsewhere does not stand in for one that is gone; but lines with at
least 20 letters and digits (what `git blame -M` asks for) that occur once before and once after have moved, though it be
across others. Lines end at LF, and whether the last one does makes no difference.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice

from kbgit.access import Action, Principal
from kbgit.catalogue import Catalogue
from kbgit.citation import Citation
from kbgit.errors import InvalidCitation
from kbgit.indexer import Indexer
from kbgit.item import ItemStatus, parse_document
from kbgit.library.citing import quote_hash
from kbgit.library.sections import Content, SectionDifference, difference_by_section
from kbgit.library.sight import Sight
from kbgit.library.verdict import Reason, State, Verdict
from kbgit.passage import split_passages
from kbgit.rows import BaseRow, ItemRow, RevisionRow
from kbgit.store.hunks import Hunk, line_hunks

_PAIRS_AT_ONCE = 500  # of contents: what is in memory, and compared by one process
_TELLING = 20
_LETTERS_AND_DIGITS = re.compile(r"[^\W_]")


class Verifying:
    """Verifies citations, many at once: each pair of contents is read and compared once."""

    def __init__(self, catalogue: Catalogue, indexer: Indexer) -> None:
        self._catalogue = catalogue
        self._indexer = indexer

    def verify(
        self,
        citations: Sequence[str | Citation],
        caller: Principal | None,
        *,
        quote_hashes: Mapping[str, str] | None = None,
        differences: bool = True,
    ) -> list[Verdict]:
        """A verdict on each citation, in their order.

        `quote_hashes` maps texts of citations to the hashes of what was quoted: of the cited lines, or of the passage
        that a search gave for them. Without `differences`, verdicts say that something changed and not what.
        """
        hashes = quote_hashes or {}
        texts = [str(citation) for citation in citations]
        asked = {text: _parsed(text) for text in texts}
        pins = self._pins({(c.item_id, c.revision) for c in asked.values() if c is not None and c.revision}, caller)
        verdicts: dict[str, Verdict] = {}
        to_compare: defaultdict[_Pin, list[tuple[str, Citation]]] = defaultdict(list)
        for text, citation in asked.items():
            if citation is None or citation.revision is None:
                verdicts[text] = Verdict(text, State.UNKNOWN, Reason.MALFORMED)
            elif (pin := pins.get((citation.item_id, citation.revision))) is None:
                verdicts[text] = Verdict(text, State.UNKNOWN, Reason.NOT_FOUND)
            elif citation.lines is None:
                verdicts[text] = pin.with_quote(pin.verdict(text, citation), hashes.get(text))
            else:
                to_compare[pin].append((text, citation))
        for compared, group in self._compared(to_compare):
            for text, citation in group:
                verdict = compared.verdict(text, citation, differences)
                verdicts[text] = compared.with_quote(verdict, citation, hashes.get(text))
        return [verdicts[text] for text in texts]

    def _pins(self, wanted: set[tuple[str, str]], caller: Principal | None) -> dict[tuple[str, str], _Pin]:
        """(item id, revision) → where it is, of those that the caller may see.

        A revision that several bases share (one is a fork of the other) is looked for first where its item is alive.
        """
        found: dict[tuple[str, str], _Pin] = {}
        sight = Sight(self._catalogue, caller)
        for row in sight.bases if wanted else ():
            base = self._indexer.seen(row)
            key, sees_drafts = str(base.key), sight.may(Action.READ_DRAFTS, base)
            revisions = self._catalogue.revisions_named(key, wanted)
            items = self._catalogue.items_named(key, {item_id for item_id, _ in revisions})
            for pin, revision in revisions.items():
                if revision.blob is not None and (revision.was_published or sees_drafts):
                    here = _Pin(base, revision, items.get(revision.item_id), sees_drafts)
                    if pin not in found or here.rank > found[pin].rank:
                        found[pin] = here
        return found

    def _compared(
        self, wanted: Mapping[_Pin, list[tuple[str, Citation]]]
    ) -> Iterator[tuple[_Compared, list[tuple[str, Citation]]]]:
        """Each revision beside the current one, with contents and, where a citation asks for it, their difference."""
        by_base: defaultdict[str, list[_Pin]] = defaultdict(list)
        for pin in wanted:
            by_base[str(pin.base.key)].append(pin)
        for pins in by_base.values():
            repository = self._indexer.repository(pins[0].base.key)
            rest = iter(sorted(pins, key=lambda pin: pin.revision.item_id))  # an item's current content is read once
            while some := list(islice(rest, _PAIRS_AT_ONCE)):
                blobs = {blob: Content("") for pin in some for blob in pin.blobs}
                for blob, raw in repository.blobs(blobs):
                    blobs[blob] = Content(parse_document(raw).content)
                contents = ([blobs[blob] for blob in pin.blobs] for pin in some)
                pairs = [_Compared(pin, old, *new) for pin, (old, *new) in zip(some, contents, strict=True)]
                unclear = [
                    pair
                    for pair in pairs
                    if pair.new is not None and any(pair.needs_hunks(citation) for _, citation in wanted[pair.pin])
                ]
                texts = [(pair.old.text, pair.new.text) for pair in unclear if pair.new is not None]
                for pair, hunks in zip(unclear, line_hunks(texts), strict=True):
                    pair.hunks = hunks
                yield from ((pair, wanted[pair.pin]) for pair in pairs)


def _parsed(text: str) -> Citation | None:
    try:
        text.encode()  # JSON can spell what is no text, a lone surrogate
        return Citation.parse(text)
    except (InvalidCitation, UnicodeEncodeError):
        return None


@dataclass(frozen=True, slots=True, eq=False)
class _Pin:
    """A revision that the caller may see, and the item as it is now (None: its file was removed)."""

    base: BaseRow
    revision: RevisionRow
    item: ItemRow | None
    sees_drafts: bool

    @property
    def rank(self) -> tuple[bool, bool]:
        return self.current is not None, self.item is not None

    @property
    def current(self) -> ItemRow | None:
        """The item, if an unpinned read would answer with it (or, for those who see drafts, could)."""
        if self.item is None or not self.base.active:
            return None
        shown = {ItemStatus.PUBLISHED, ItemStatus.DRAFT} if self.sees_drafts else {ItemStatus.PUBLISHED}
        return self.item if self.item.status in shown else None

    @property
    def blobs(self) -> list[str]:
        """The cited file, and the current one if there is one."""
        assert self.revision.blob is not None
        current = self.current
        return [self.revision.blob] if current is None else [self.revision.blob, current.blob]

    def verdict(self, text: str, citation: Citation) -> Verdict:
        """What can be said without looking at lines."""
        locator = self.item.path if self.item else self.revision.path
        if self.item is None:
            return Verdict(text, State.DELETED, None, None, self.base, locator)
        if (current := self.current) is None:
            reason = Reason.ITEM if self.item.status is ItemStatus.ARCHIVED else Reason.UNPUBLISHED
            return Verdict(text, State.ARCHIVED, reason if self.base.active else Reason.BASE, None, self.base, locator)
        same = current.revision == self.revision.sha or current.content_hash == self.revision.content_hash
        state = State.EXACT if same else State.SUPERSEDED
        return Verdict(text, state, None, replace(citation, revision=current.revision), self.base, locator)

    def with_quote(self, verdict: Verdict, given: str | None) -> Verdict:
        """The verdict on a whole content with its hash, and whether `given` is it."""
        own = self.revision.content_hash
        return replace(verdict, quote_hash=own, quote_matches=None if given is None else given == own)


@dataclass
class _Compared:
    """A cited revision's content beside the current one (None: there is none), and how their lines differ."""

    pin: _Pin
    old: Content
    new: Content | None = None
    hunks: Sequence[Hunk] = field(default=(), kw_only=True)

    def needs_hunks(self, citation: Citation) -> bool:
        """Whether only a comparison of the whole contents tells what became of the cited lines."""
        assert citation.lines is not None
        start, end = citation.lines[0] - 1, citation.lines[1]
        return end <= len(self.old.lines) and self._clear_place(start, end) is None

    def verdict(self, text: str, citation: Citation, differences: bool) -> Verdict:
        """The verdict on cited lines."""
        assert citation.lines is not None
        start, end = citation.lines[0] - 1, citation.lines[1]
        if end > len(self.old.lines):
            return Verdict(text, State.UNKNOWN, Reason.NO_SUCH_LINES)
        found = self.pin.verdict(text, citation)
        if self.new is None or found.current is None:
            return found
        place = self._clear_place(start, end)
        if place is not None:
            return self._standing(found, start, end, place)
        touched = [hunk for hunk in self.hunks if hunk.old_start < end and hunk.old_end > start]
        if not touched:
            return self._standing(found, start, end, self._place(start))
        first = touched[0].new_start if touched[0].old_start <= start else self._place(start)
        last = touched[-1].new_end if touched[-1].old_end >= end else self._place(end - 1) + 1
        current = found.current.with_lines(first + 1, last) if first < last else None
        shown: tuple[SectionDifference, ...] = ()
        if differences:
            shown = difference_by_section(self.old, self.new, touched)
        return replace(found, state=State.CHANGED, current=current, differences=shown)

    def with_quote(self, verdict: Verdict, citation: Citation, given: str | None) -> Verdict:
        """The verdict with the hash of the cited lines, and whether `given` is it."""
        assert citation.lines is not None
        if verdict.state is State.UNKNOWN:
            return verdict
        own = quote_hash("\n".join(self.old.lines[citation.lines[0] - 1 : citation.lines[1]]))
        matches = None if given is None else given == own or given in self._passage_hashes(citation.lines)
        return replace(verdict, quote_hash=own, quote_matches=matches)

    def _passage_hashes(self, lines: tuple[int, int]) -> set[str]:
        """Hashes of the passages that a search gives for these lines: several, if a line is too long for one."""
        passages = split_passages(self.old.text)
        return {quote_hash(part.text) for part in passages if (part.start_line, part.end_line) == lines}

    def _standing(self, found: Verdict, start: int, end: int, place: int) -> Verdict:
        assert found.current is not None
        state = State.EXACT if place == start else State.MOVED
        return replace(found, state=state, current=found.current.with_lines(place + 1, place + end - start))

    def _place(self, line: int) -> int:
        """Where a line (from 0) that no hunk touched is now."""
        before = bisect_right(self.hunks, line, key=lambda hunk: hunk.old_end)
        return line + self.hunks[before - 1].new_end - self.hunks[before - 1].old_end if before else line

    def _clear_place(self, start: int, end: int) -> int | None:
        """Where the cited lines are now, if that can be told from themselves."""
        assert self.new is not None
        cited = self.old.lines[start:end]
        if self.new.lines[start:end] == cited:
            return start
        letters = sum(len(_LETTERS_AND_DIGITS.findall(line)) for line in cited)
        if letters < _TELLING or _only_place(self.old, cited) is None:
            return None
        return _only_place(self.new, cited)


def _only_place(content: Content, run: Sequence[str]) -> int | None:
    """The line (from 0) at which `run` begins in a content, if it does so exactly once."""
    framed = "\n" + "\n".join(content.lines) + "\n"
    wanted = "\n" + "\n".join(run) + "\n"
    first = framed.find(wanted)
    if first < 0 or framed.find(wanted, first + 1) >= 0:
        return None
    return framed.count("\n", 0, first)
