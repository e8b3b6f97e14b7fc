"""HTML reduced to the structure of its text: headings, paragraphs, lists, tables, links, code, quotations.

Scripts, styles, comments, form controls, embedded objects and whatever is hidden are left out; of images the alternative text
stays. What comes out is Markdown that holds no HTML. Nothing here recurses, and nesting beyond `_DEEPEST` is flattened, so
that the time is linear in the input. See `html_tokens` for why this is no library's parser.
"""

from __future__ import annotations

import re
from collections import Counter

from kbgit.importing.text.blocks import Page
from kbgit.importing.text.body import Body
from kbgit.importing.text.html_tokens import Tag, tokens

_DROPPED = frozenset(
    "script style template noscript iframe noembed noframes object embed applet audio video canvas svg annotation map"
    " select option datalist button textarea input label meter progress dialog".split()
)
_VOID = frozenset("area base br col embed hr img input link meta param source track wbr frame".split())
_HEADINGS = {f"h{level}": level for level in range(1, 7)}
_BLOCKS = frozenset(
    "p div section article header footer main nav aside address figure figcaption details summary fieldset legend form"
    " center body html hgroup search menu dir".split()
)
_LISTS = {"ul": "-", "ol": "1", "menu": "-", "dir": "-", "dl": "-"}
_ITEMS = frozenset({"li", "dt", "dd"})
_CODE = frozenset({"code", "kbd", "samp", "tt", "var"})
_CELLS = frozenset({"td", "th"})
# A start tag ends what cannot hold it: the ends that HTML lets its writers leave out.
_IMPLIED = {
    **dict.fromkeys((*_HEADINGS, *_BLOCKS, *_LISTS, "table", "pre", "blockquote", "hr"), ("p",)),
    "li": ("p", "li"),
    "dt": ("p", "dt", "dd"),
    "dd": ("p", "dt", "dd"),
    "tr": ("p", "td", "th", "tr", "caption"),
    "td": ("p", "td", "th", "caption"),
    "th": ("p", "td", "th", "caption"),
    **dict.fromkeys(("tbody", "thead", "tfoot"), ("p", "td", "th", "tr", "caption")),
    "body": ("head",),
    "option": ("option",),
}
# What an implied or a stray end never reaches beyond.
_SCOPES = {
    "li": frozenset({*_LISTS, "table"}),
    "dt": frozenset({"dl", "table"}),
    "dd": frozenset({"dl", "table"}),
    "p": frozenset({"li", "dd", "td", "th", "blockquote", "table"}),
}
_TABLE_SCOPE = frozenset({"table"})
_CELL_SCOPE = frozenset({"td", "th", "caption", "table"})
_OF_TABLES = frozenset({"table", "tr", "td", "th", "caption", "tbody", "thead", "tfoot"})
_OF_HEADS = frozenset({"title", "meta", "link", "base", "script", "style", "noscript", "template", "html"})
_STRUCTURE = frozenset(
    {*_HEADINGS, *_BLOCKS, *_LISTS, *_ITEMS, *_CODE, *_OF_TABLES, "blockquote", "pre", "listing"}
    | {"a", "q", "head", "title"}
)
_HIDDEN_STYLE = re.compile(r"(?:display\s*:\s*none|visibility\s*:\s*hidden)", re.IGNORECASE)
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")
_SAFE_SCHEMES = frozenset({"http", "https", "mailto", "ftp", "tel"})
_UNSAFE_IN_ADDRESS = re.compile(r"""[\s<>()\[\]\\"'`*_|]""")
_LANGUAGE = re.compile(r"(?:^|\s)(?:lang(?:uage)?|highlight-source|brush:?)[-: ]([A-Za-z0-9+#_-]{1,30})(?:\s|$)")
_CONTROLS = re.compile("[\x00-\x20\x7f-\x9f]+")
_LONGEST_ADDRESS = 2000
_LOOKED_AT = 32


def convert(text: str) -> Body:
    """The page's text structure."""
    reader = _Reader()
    for token in tokens(text):
        if isinstance(token, Tag):
            reader.tag(token)
        else:
            reader.text(token)
    reader.finish()
    return Body(reader.page.markdown(), reader.title)


class _Reader:
    """Follows the tags with a stack of what is open, and tells the page what that means."""

    def __init__(self) -> None:
        self.page = Page()
        self._open: list[tuple[str, bool]] = []  # (name, whether it hides what is in it)
        self._counts: Counter[str] = Counter()
        self._hiding = 0
        self._title: list[str] = []

    @property
    def title(self) -> str | None:
        """What `<title>` says, else the first heading."""
        return " ".join("".join(self._title).split()) or self.page.first_heading

    def text(self, text: str) -> None:
        if self._counts["title"] and not self._hiding:
            self._title.append(text)
        elif not self._hiding and not self._counts["head"]:
            self.page.text(text)

    def tag(self, tag: Tag) -> None:
        name = tag.name
        if tag.is_end:
            if name == "br":
                self._leaf(tag)
            else:
                self._end(name, frozenset() if name in _OF_TABLES else _CELL_SCOPE)
            return
        for implied in _IMPLIED.get(name, ()):
            self._end(implied, _SCOPES.get(implied, _TABLE_SCOPE), is_implied=True)
        if self._counts["head"] and name not in _OF_HEADS:
            self._end("head", frozenset())  # its end was left out
        if name in _VOID:
            if not self._hiding and not _is_hidden(tag) and name not in _DROPPED:
                self._leaf(tag)
            return
        if name == "a" and self._counts["a"]:
            self._end("a", _CELL_SCOPE, is_implied=True)
        if name == "title" and (self._counts["title"] or self._title):
            name = "script"  # a second title, of a picture say, is none of the page's
        hides = name in _DROPPED or (_is_hidden(tag) and name not in ("html", "body"))  # until a script shows it
        if name not in _STRUCTURE and not hides and not self._hiding:
            return  # emphasis and the like, whose ends may stand anywhere
        self._open.append((name, hides))
        self._counts[name] += 1
        self._hiding += hides
        if not self._hiding:
            self._started(name, tag)

    def _end(self, name: str, scope: frozenset[str], *, is_implied: bool = False) -> None:
        """Close the innermost element of that name and what is open within it, unless one of `scope` lies between."""
        if not self._counts[name]:
            return
        # Only a few are looked at: what is open in between is nearly always little, and looking at all is quadratic.
        for found, _ in reversed(self._open[-_LOOKED_AT:]):
            if found == name:
                break
            if found in scope:
                return
        else:
            if is_implied:
                return
        while True:
            found, hides = self._open.pop()
            self._counts[found] -= 1
            if not self._hiding:
                self._ended(found)
            self._hiding -= hides
            if found == name:
                return

    def finish(self) -> None:
        """Close what is still open."""
        while self._open:
            self._end(self._open[-1][0], frozenset())

    def _started(self, name: str, tag: Tag) -> None:
        page = self.page
        if name in _HEADINGS:
            page.begin_heading(_HEADINGS[name])
        elif name in _LISTS:
            page.begin_list(ordered=name == "ol", start=tag.attributes.get("start", ""))
        elif name in _ITEMS:
            page.begin_item(nested=name == "dd")
        elif name == "blockquote":
            page.begin_quote()
        elif name in ("pre", "listing"):
            page.begin_code(_language(tag))
        elif name == "table":
            page.begin_table()
        elif name == "tr":
            page.begin_row()
        elif name in _CELLS:
            page.begin_cell()
        elif name in _CODE:
            page.name_language(_language(tag))
            page.begin_inline_code()
        elif name == "a":
            page.begin_link(address_of(tag.attributes.get("href", "")))
        elif name == "q":
            page.text("“")
        elif name in _BLOCKS or name == "caption":
            page.end_block()

    def _ended(self, name: str) -> None:
        page = self.page
        if name in _HEADINGS:
            page.end_heading()
        elif name in _LISTS:
            page.end_list()
        elif name in _ITEMS:
            page.end_item()
        elif name == "blockquote":
            page.end_quote()
        elif name in ("pre", "listing"):
            page.end_code()
        elif name == "table":
            page.end_table()
        elif name == "tr":
            page.end_row()
        elif name in _CELLS:
            page.end_cell()
        elif name in _CODE:
            page.end_inline_code()
        elif name == "a":
            page.end_link()
        elif name == "q":
            page.text("”")
        elif name in _BLOCKS or name == "caption":
            page.end_block()

    def _leaf(self, tag: Tag) -> None:
        if tag.name == "br":
            self.page.line_break()
        elif tag.name == "hr":
            self.page.rule()
        elif tag.name == "img":
            self.page.text(tag.attributes.get("alt", ""))


def _is_hidden(tag: Tag) -> bool:
    attributes = tag.attributes
    if "hidden" in attributes or attributes.get("aria-hidden", "").strip().lower() == "true":
        return True
    return bool(_HIDDEN_STYLE.search(attributes.get("style", "")))


def _language(tag: Tag) -> str:
    match = _LANGUAGE.search(tag.attributes.get("class", "")[:200])
    return match[1] if match else ""


def address_of(href: str) -> str:
    """Where a link leads, safe between Markdown's brackets; empty for what a reader must not or cannot follow.

    Only addresses of the web, of mail, files and telephones, and relative ones: `javascript:` and `data:` are dropped, and
    so are places within the page, which the Markdown has not.
    """
    address = _CONTROLS.sub(lambda found: "%20" if " " in found[0] else "", href.strip("".join(map(chr, range(33)))))
    scheme = _SCHEME.match(address)
    if (
        len(address) > _LONGEST_ADDRESS
        or (scheme and scheme[1].lower() not in _SAFE_SCHEMES)
        or address[:1] in ("", "#")
    ):
        return ""
    return _UNSAFE_IN_ADDRESS.sub(lambda found: "".join(f"%{byte:02X}" for byte in found[0].encode()), address)
