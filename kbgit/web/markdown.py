"""Markdown as HTML that can run nothing, ask no other host for anything and take over nothing of the page around it.

Whatever a text holds, only the elements and attributes named in `markdown_html` leave: raw HTML, but for a line break, is
shown as the text it is, links lead to `http`, `https` and `mailto`, to headings of the same text and to items that the
caller of `render` knows, and pictures are named, not loaded. Ids begin with `ID_PREFIX`, so that no heading can pass for
a part of the page.

Every block carries the lines it came from (`data-line` to `data-end`, 1-based and inclusive lines of the canonical content),
which is what citations count in; the blocks that a citation's lines touch are marked.

Time and output are bounded: the parser is linear, its nesting is limited, and past `LONGEST_STRUCTURED` characters or
`MOST_LINES` a text is shown as it is written, its fences still fences; past `LONGEST_MARKED_UP` characters of running text or
`MOST_BRACKETS` the blocks are kept and the markup inside of them is not read.
"""

from __future__ import annotations

import posixpath
import re
import unicodedata
from collections.abc import Iterator, Sequence

from markdown_it import MarkdownIt
from markdown_it.rules_block import StateBlock
from markdown_it.rules_core import StateCore
from markdown_it.rules_inline import StateInline
from markdown_it.token import Token
from markupsafe import Markup
from mdit_py_plugins.footnote import footnote_plugin

from kbgit.item import lines_outside_fences
from kbgit.place import read_mark
from kbgit.web.markdown_html import (
    CITED,
    ID_PREFIX,
    RESOLVE,
    SCHEME,
    Environment,
    Renderer,
    Resolver,
    code_block,
    slug_of,
)

__all__ = ["ID_PREFIX", "Resolver", "render", "target_path"]

LONGEST_STRUCTURED = 400_000
MOST_LINES = 20_000
LONGEST_MARKED_UP = 200_000
MOST_BRACKETS = 10_000

_DEEPEST_NESTING = 20
_DEEPEST_HEADING = 6
_SCHEMES = frozenset({"http", "https", "mailto"})
_MARKED = "kbgit_marked"
_BREAK = re.compile(r"<br ?/?>", re.IGNORECASE)


def render(content: str, *, resolve: Resolver | None = None, cited: tuple[int, int] | None = None) -> Markup:
    """Canonical `content` as HTML, its headings one level below a page's `h1`.

    `resolve` gives the addresses of relative links; what it does not know stays text. The blocks on the `cited` lines
    (1-based, inclusive) get the class `cited`, and the first of them the id `cited`. Never raises.
    """
    if len(content) > LONGEST_STRUCTURED or content.count("\n") >= MOST_LINES:
        return Markup("").join(_as_written(content, cited))
    environment: Environment = {RESOLVE: resolve, CITED: cited}
    html: str = _MARKDOWN.render(content, environment)
    return Markup(html)


def target_path(locator: str, link: str) -> str | None:
    """The path within the base that a relative `link` in the item at `locator` names; None when it leads outside.

    A link that begins with `/` counts from the base's top.
    """
    start = "" if link.startswith("/") else posixpath.dirname(locator)
    path = posixpath.normpath(posixpath.join(start, link.lstrip("/")))
    return None if path in (".", "..") or path.startswith("../") else unicodedata.normalize("NFC", path)


# --- what is read ------------------------------------------------------------------------------------------------------


class _Parser(MarkdownIt):
    """The parser, with our idea of which links there are."""

    def validateLink(self, url: str) -> bool:
        """Whether a normalised address may be linked: by scheme, and no other host in disguise."""
        bare = url.strip()
        if scheme := SCHEME.match(bare):
            return scheme[1].lower() in _SCHEMES
        return not bare.startswith(("//", "/\\", "/%5C", "/%5c", "\\", "%5C", "%5c"))


def _comment(state: StateBlock, start_line: int, end_line: int, silent: bool) -> bool:
    """A block rule for HTML comments, which say where in a document a text stood, or else are shown as they are."""
    start = state.bMarks[start_line] + state.tShift[start_line]
    if state.is_code_block(start_line) or not state.src.startswith("<!--", start, state.eMarks[start_line]):
        return False
    if silent:
        return True
    line = start_line
    while "-->" not in state.src[state.bMarks[line] : state.eMarks[line]]:
        if line + 1 >= end_line or (state.sCount[line + 1] < state.blkIndent and not state.isEmpty(line + 1)):
            break
        line += 1
    state.line = line + 1
    text = state.getLines(start_line, state.line, state.blkIndent, False)
    place = read_mark(text)
    token = state.push("place" if place else "comment", "", 0)
    token.map = [start_line, state.line]
    token.content = str(place) if place else text
    return True


def _line_break(state: StateInline, silent: bool) -> bool:
    """An inline rule for `<br>`, which is how a line ends inside a table's cell; no other tag is one here."""
    if not (match := _BREAK.match(state.src, state.pos)):
        return False
    if not silent:
        state.push("hardbreak", "br", 0)
    state.pos = match.end()
    return True


def _limit_markup(state: StateCore) -> None:
    """A core rule before inline markup is read: of more of it than the limits, none is read."""
    texts = [token for token in state.tokens if token.type == "inline"]
    length = sum(len(token.content) for token in texts)
    brackets = sum(token.content.count("[") for token in texts)
    if length > LONGEST_MARKED_UP or brackets > MOST_BRACKETS:
        for token in texts:
            token.type = "unread"


def _finish(state: StateCore) -> None:
    """A core rule after all others: lines, marks, heading levels and ids."""
    slugs: dict[str, int] = {}
    taken: set[str] = set()
    cited: tuple[int, int] | None = state.env.get(CITED)
    lines = state.src.split("\n")
    for index, token in enumerate(state.tokens):
        if token.type in ("heading_open", "heading_close"):
            token.tag = f"h{min(int(token.tag[1]) + 1, _DEEPEST_HEADING)}"
        if token.type == "heading_open":
            token.attrSet("id", _heading_id(state.tokens[index + 1], slugs, taken))
        if token.nesting >= 0 and token.map is not None and token.type not in ("inline", "unread"):
            first, last = _lines_of(token.map, lines)
            token.attrSet("data-line", str(first))
            token.attrSet("data-end", str(last))
            if cited and first <= cited[1] and last >= cited[0] and _is_smallest(state.tokens, index):
                _mark(token, state.env)
        if token.type == "inline":
            _finish_links(token.children or [])


def _lines_of(span: Sequence[int], lines: Sequence[str]) -> tuple[int, int]:
    """First and last line, from 1, of a block, without the blank lines after it."""
    start, end = span
    while end > start + 1 and not lines[min(end, len(lines)) - 1].strip():
        end -= 1
    return start + 1, max(start + 1, end)


def _is_smallest(tokens: Sequence[Token], index: int) -> bool:
    """Whether no visible block is inside of this one: a paragraph, a row, an item of a tight list."""
    token = tokens[index]
    if token.hidden or token.type in ("td_open", "th_open"):
        return False
    if token.nesting == 0 or token.type == "tr_open":
        return True
    following = tokens[index + 1] if index + 1 < len(tokens) else token
    return following.type in ("inline", "unread") or following.hidden or following.nesting < 0


def _mark(token: Token, environment: Environment) -> None:
    token.attrJoin("class", "cited")
    if _MARKED not in environment:
        environment[_MARKED] = True
        token.attrSet("id", "cited")


def _heading_id(text: Token, slugs: dict[str, int], taken: set[str]) -> str:
    slug = slug_of("".join(child.content for child in text.children or []) or text.content)
    number = slugs.get(slug, 0)
    found = slug if not number else f"{slug}-{number}"
    while found in taken:
        number += 1
        found = f"{slug}-{number}"
    slugs[slug] = number + 1
    taken.add(found)
    return ID_PREFIX + found


def _finish_links(children: list[Token]) -> None:
    """Tell pictures that they are inside of a link, and give links without any text their address as one."""
    opened: Token | None = None
    has_text = False
    for child in children:
        if child.type == "link_open":
            opened, has_text = child, False
        elif child.type == "link_close" and opened is not None:
            if not has_text:
                opened.meta["text"] = str(opened.attrGet("href") or "")
            opened = None
        elif opened is not None:
            if child.type == "image":
                child.meta["in_link"] = True
                has_text = True
            has_text = has_text or bool(child.content.strip())


def _as_written(content: str, cited: tuple[int, int] | None) -> Iterator[Markup]:
    """A text over the limits: what is outside of fences as it is written, and what is inside as code."""
    lines = content.split("\n")
    outside = {number for number, _ in lines_outside_fences(content)}
    start = 1
    for number in range(2, len(lines) + 2):
        if number > len(lines) or (number in outside) != (start in outside):
            attributes = f' data-line="{start}" data-end="{number - 1}"'
            if cited and start <= cited[0] < number:
                attributes += ' id="cited"'
            text = "\n".join(lines[start - 1 : number - 1])
            yield Markup(code_block(text, "", start, attributes, cited))
            start = number


def _parser() -> _Parser:
    options = {"maxNesting": _DEEPEST_NESTING, "html": False, "xhtmlOut": False, "tasklists": True}
    made = _Parser("commonmark", options, renderer_cls=Renderer)
    made.enable(["table", "strikethrough"])
    made.use(footnote_plugin, inline=False, move_to_end=False)
    made.add_render_rule("footnote_ref", Renderer.footnote_ref)  # the plugin has put its own there
    others = ["paragraph", "reference", "blockquote", "list"]
    made.block.ruler.before("html_block", "comment", _comment, {"alt": others})
    made.inline.ruler.before("html_inline", "line_break", _line_break)
    made.core.ruler.before("inline", "limit_markup", _limit_markup)
    made.core.ruler.push("finish", _finish)
    return made


_MARKDOWN = _parser()
