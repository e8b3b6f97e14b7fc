"""Tokens of Markdown as HTML: the elements and attributes that `kbgit.web.markdown` promises, and no others."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, MutableMapping, Sequence
from typing import Any
from urllib.parse import quote, unquote

from markdown_it.renderer import RendererHTML
from markdown_it.token import Token
from markdown_it.utils import OptionsDict
from markupsafe import escape

ID_PREFIX = "md-"
SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.\-]*):")
"""What an address begins with that is not relative; the rest says to which scheme it belongs."""

Resolver = Callable[[str], str | None]
"""From the path of a relative link as it was written (percent-encoding undone) to an address of this server, or None."""
Environment = MutableMapping[str, Any]
RESOLVE = "kbgit_resolve"
"""Where an environment has the `Resolver`."""
CITED = "kbgit_cited"
"""Where it has the first and last cited line, or None."""

_LONGEST_SLUG = 80
_NOT_SLUG = re.compile(r"[^\w\- ]+")
_LANGUAGE = re.compile(r"[A-Za-z0-9+#_.\-]{1,30}")
_ALIGNED = re.compile(r"text-align:(left|right|center)")
_ELEMENTS = frozenset(
    "a blockquote br code del em h2 h3 h4 h5 h6 hr li ol p pre s span strong sup table tbody td th thead tr ul".split()
)
_ATTRIBUTES = frozenset("class data-end data-line dir href id start title".split())
_WITH_DIRECTION = frozenset("blockquote h2 h3 h4 h5 h6 li p td th".split())
_REL = "noopener noreferrer nofollow"
_TABLES = "kbgit_tables"
_IDS = "kbgit_ids"
_OPEN = "kbgit_open"


def slug_of(text: str) -> str:
    """The part of a heading's id that its text gives; links to headings go the same way."""
    plain = unicodedata.normalize("NFC", text[: 2 * _LONGEST_SLUG]).strip().lower()
    return _NOT_SLUG.sub("", plain).replace(" ", "-")[:_LONGEST_SLUG] or "section"


class Renderer(RendererHTML):
    """Writes the allowed elements with the allowed attributes, and nothing else."""

    def renderToken(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: Environment) -> str:
        """An element that has no rule of its own; what it holds is kept where the element is not allowed."""
        token = tokens[idx]
        if token.tag not in _ELEMENTS:
            return str(escape(token.content))
        if token.nesting == 1 and token.tag in _WITH_DIRECTION:
            token.attrSet("dir", "auto")
        return super().renderToken(tokens, idx, options, env)

    @staticmethod
    def renderAttrs(token: Token) -> str:
        """The allowed attributes; a table's alignment becomes a class, because styles are not allowed."""
        found = ""
        for name, value in token.attrItems():
            if name == "style" and (aligned := _ALIGNED.fullmatch(str(value))):
                name, value = "class", f"align-{aligned[1]}"
            if name in _ATTRIBUTES:
                found += f' {name}="{escape(str(value))}"'
        return found

    def unread(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: Environment) -> str:
        """A text whose markup is over the limits, as it is written."""
        return str(escape(tokens[idx].content))

    def text(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: Environment) -> str:
        """Text."""
        return str(escape(tokens[idx].content))

    html_inline = html_block = text_special = text

    def place(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: Environment) -> str:
        """Where in the original document what follows stood, as a labelled divider."""
        tokens[idx].attrJoin("class", "place")
        return f"<p{self.renderAttrs(tokens[idx])}>{escape(tokens[idx].content)}</p>\n"

    def comment(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: Environment) -> str:
        """A comment, as it is written: who reads the item sees all that whoever searches it finds."""
        tokens[idx].attrJoin("class", "comment")
        return f"{_pre(self.renderAttrs(tokens[idx]))}{escape(tokens[idx].content)}</pre>\n"

    def fence(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: Environment) -> str:
        """Code, with its language as a class, and the cited lines of it marked."""
        token = tokens[idx]
        language = token.info.strip().split(" ", 1)[0] if token.info else ""
        first = token.map[0] + (2 if token.type == "fence" else 1) if token.map else 1
        return code_block(token.content, language, first, self.renderAttrs(token), env.get(CITED))

    code_block = fence

    def code_inline(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: Environment) -> str:
        """Code within a line."""
        return f"<code>{escape(tokens[idx].content)}</code>"

    def link_open(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: Environment) -> str:
        """The start of a link to another host, to a heading here or to an item; one that leads nowhere is marked."""
        token = tokens[idx]
        address = _address(str(token.attrGet("href") or ""), env.get(RESOLVE))
        text = escape(token.meta.get("text", ""))
        env.setdefault(_OPEN, []).append(address is not None)
        if address is None:
            return f'<span class="broken" title="no item of this base is there">{text}'
        title = f' title="{escape(token.attrs["title"])}"' if "title" in token.attrs else ""
        rel = f' rel="{_REL}"' if SCHEME.match(address) else ""
        return f'<a href="{escape(address)}"{title}{rel}>{text}'

    def link_close(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: Environment) -> str:
        """The end of what `link_open` opened."""
        opened = env.get(_OPEN)
        return "</a>" if opened and opened.pop() else "</span>"

    def image(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: Environment) -> str:
        """A picture by its name: a link to it where it is on another host, since this page asks no other host."""
        token = tokens[idx]
        source = str(token.attrGet("src") or "")
        name = escape(self.renderInlineAsText(token.children, options, env).strip() or "picture")
        if token.meta.get("in_link"):
            return f'<span class="picture">{name}</span>'
        if SCHEME.match(source):
            return f'<a class="picture" href="{escape(source)}" rel="{_REL}">{name}</a>'
        return f'<span class="picture" title="{escape(unquote(source))}">{name}</span>'

    def list_item_open(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: Environment) -> str:
        """An item; one of a task list begins with whether it is done."""
        token = tokens[idx]
        checked = token.meta.get("checked")
        if checked is None:
            return self.renderToken(tokens, idx, options, env)
        token.attrJoin("class", "task")
        sign, word = ("\u2611", "done") if checked else ("\u2610", "to do")
        return f'{self.renderToken(tokens, idx, options, env)}<span role="img" aria-label="{word}">{sign}</span> '

    def table_open(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: Environment) -> str:
        """A table in a box of its own, which scrolls on a narrow screen and by keyboard."""
        number = env[_TABLES] = env.get(_TABLES, 0) + 1
        box = f'<div class="table" role="group" aria-label="table {number}" tabindex="0">'
        return f"{box}<table{self.renderAttrs(tokens[idx])}>\n"

    def table_close(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: Environment) -> str:
        """The end of both."""
        return "</table></div>\n"

    # Footnotes stand where they are written, so that lines stay in order and one that nothing refers to is not lost.

    def footnote_ref(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: Environment) -> str:
        """A reference to a footnote."""
        note, label = tokens[idx].meta["id"] + 1, escape(tokens[idx].meta["label"])
        return f'<sup class="note"><a href="#{ID_PREFIX}note-{note}" title="footnote {label}">{label}</a></sup>'

    def footnote_reference_open(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: Environment) -> str:
        """The start of a footnote, which the first one of a label gives an id."""
        token, label = tokens[idx], tokens[idx].meta["label"]
        number = env["footnotes"]["refs"].get(f":{label}", -1) + 1
        ids = env.setdefault(_IDS, set())
        if number and number not in ids:
            ids.add(number)
            token.attrSet("id", f"{ID_PREFIX}note-{number}")
        name = f'<span class="label">{escape(label)}</span>'
        token.attrJoin("class", "footnote")
        return f"<div{self.renderAttrs(token)}>{name}\n"

    def footnote_reference_close(
        self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: Environment
    ) -> str:
        """Its end."""
        return "</div>\n"


def _address(href: str, resolve: Resolver | None) -> str | None:
    """Where a link leads; None for a relative one that `resolve` does not know."""
    if SCHEME.match(href):
        return href
    path, _, fragment = href.partition("#")
    anchor = "#" + quote(ID_PREFIX + slug_of(unquote(fragment)), safe="") if fragment else ""
    if not path:
        return anchor or None
    found = resolve(unquote(path.partition("?")[0])) if resolve is not None else None
    return None if found is None else found + anchor


def _pre(attributes: str) -> str:
    # It scrolls, so the keyboard must reach it.
    return f'<pre tabindex="0"{attributes}>'


def code_block(text: str, language: str, first: int, attributes: str, cited: tuple[int, int] | None) -> str:
    """A block of code whose first line has the number `first`."""
    known = f' class="language-{language}"' if _LANGUAGE.fullmatch(language) else ""
    attributes = attributes.replace(' class="cited"', "")  # the lines are marked, not the block
    body = str(escape(text))
    if cited:
        lines = text.split("\n")
        start, end = max(0, cited[0] - first), min(len(lines), max(0, cited[1] + 1 - first))
        if start < end:
            before, marked, after = (escape("\n".join(part)) for part in (lines[:start], lines[start:end], lines[end:]))
            gap_before, gap_after = "\n" if start else "", "\n" if end < len(lines) else ""
            body = f'{before}{gap_before}<mark class="cited">{marked}</mark>{gap_after}{after}'
    # An HTML parser drops a newline right after <pre>; the text's own comes after <code>, and so is kept.
    return f"{_pre(attributes)}<code{known}>{body}</code></pre>\n"
