from __future__ import annotations

import re
import time
from collections.abc import Iterator
from html.parser import HTMLParser

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kbgit.place import PlaceKind, mark
from kbgit.web import markdown
from kbgit.web.markdown import ID_PREFIX, render, target_path
from tests.growth import HOSTILE_SIGNS, grows_too_fast, repeated
from tests.web.pages.payloads import ALL, HTML, MARKDOWN

ELEMENTS = set(
    "a blockquote br code div em h2 h3 h4 h5 h6 hr li mark ol p pre s span strong sup "
    "table tbody td th thead tr ul".split()
)

ATTRIBUTES = set("aria-label class data-end data-line dir href id rel role start tabindex title".split())
VOID = {"br", "hr"}


class Parsed(HTMLParser):
    """The elements of an answer, their text, and whether every one is closed where it was opened."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.open: list[str] = []
        self.wrong: list[str] = []
        self.feed(str(html))
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if len({name for name, _ in attrs}) != len(attrs):
            self.wrong.append(f"an attribute twice in {tag}")
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if not self.open or self.open.pop() != tag:
            self.wrong.append(f"</{tag}>")

    def handle_data(self, data: str) -> None:
        self.texts.append(data)

    def handle_comment(self, data: str) -> None:
        self.wrong.append(data)

    def handle_decl(self, decl: str) -> None:
        self.wrong.append(decl)

    def unknown_decl(self, data: str) -> None:
        self.wrong.append(data)

    def handle_pi(self, data: str) -> None:
        self.wrong.append(data)

    @property
    def text(self) -> str:
        return "".join(self.texts)

    def named(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.elements if name == tag]


def faults_of(html: str) -> Iterator[str]:
    """Everything in `html` that a page must not have."""
    parsed = Parsed(html)
    yield from parsed.wrong
    if parsed.open:
        yield f"never closed: {parsed.open}"
    ids = [attributes["id"] or "" for _, attributes in parsed.elements if "id" in attributes]
    if len(ids) != len(set(ids)):
        yield f"an id twice: {ids}"
    yield from (f"id {one}" for one in ids if not (one.startswith(ID_PREFIX) or one == "cited"))
    for tag, attributes in parsed.elements:
        if tag not in ELEMENTS:
            yield f"<{tag}>"
        yield from (f"{tag} {name}" for name in attributes if name not in ATTRIBUTES)
        href = attributes.get("href")
        if href is not None and not re.match(r"(?:https?:|mailto:|#md-|/items/)", href, re.IGNORECASE):
            yield f"href {href}"
        if href is not None and re.match(r"[a-z]+:", href) and attributes.get("rel") != "noopener noreferrer nofollow":
            yield f"no rel for {href}"
        if "a" in parsed.open:
            yield "a link in a link"


def known(path: str) -> str | None:
    return f"/items/{path.rpartition('/')[2]}" if path.endswith(".md") and '"' not in path else None


def parsed(content: str) -> Parsed:
    html = render(content, resolve=known)
    assert not list(faults_of(html)), html
    return Parsed(html)


# --- nothing runs ------------------------------------------------------------------------------------------------------


AROUND = ["{}", "- {}", "> {}", "a {} b", "| a |\n|---|\n| {} |", "# {}", "[{}](x.md)", "[^1]: {}"]


@pytest.mark.parametrize("around", AROUND)
def test_no_payload_becomes_an_element_or_an_address(around: str) -> None:
    for payload in ALL:
        parsed(around.replace("{}", payload))


@pytest.mark.parametrize("payload", HTML)
def test_raw_html_is_shown_as_the_text_it_is(payload: str) -> None:
    shown = re.sub(r"[\s\"'`\\\x00-\x1f]|&\w+;|&#\d+;", "", parsed(payload).text)
    letters = re.sub(r"[\s\"'`\\\x00-\x1f]|&\w+;|&#\d+;", "", payload)
    assert "script" not in letters or shown.count("script") >= letters.count("script") - 1


@pytest.mark.parametrize(
    "payload",
    [one for one in MARKDOWN if re.search(r"script:|vbscript|file:|data:|blob:|evil\.example/\)", one, re.IGNORECASE)],
)
def test_an_address_that_is_not_allowed_makes_no_link(payload: str) -> None:
    addresses = [attributes.get("href") or "" for attributes in parsed(payload).named("a")]
    assert all(address.startswith(("https://evil.example/pixel.png", "#md-")) for address in addresses)


SIGNS = st.sampled_from(
    [
        *r"[ ] ( ) ! < > ` ``` ~~~ * ** _ ~~ | # - &lt; &#58; \ : [^1] <!-- --> 1. =".split(),
        *(
            "\n|-|-|\n",
            "# ",
            "\n",
            "\n\n",
            "- ",
            "> ",
            "    ",
            "\t",
            '"',
            "'",
            "\n[^1]: ",
            "<!-- page: 3 -->",
            "- [x] ",
        ),
        *(
            "javascript:",
            "https://a.example",
            "onclick=",
            "<script>",
            "x.md",
            "word",
            "向量",
            "\x00",
            "\u202e",
            "---\n",
        ),
    ]
)


@settings(max_examples=300, deadline=None)
@given(st.lists(st.one_of(SIGNS, st.sampled_from(ALL), st.text(max_size=5)), max_size=40).map("".join))
def test_whatever_is_written_only_allowed_elements_and_attributes_leave(content: str) -> None:
    parsed(content)
    assert not list(faults_of(render(content, resolve=known, cited=(1, 3))))


@settings(max_examples=100, deadline=None)
@given(
    st.lists(
        st.sampled_from(["word", "two words", "- item", "> quote", "1. one", "", "    code", "a | b"]), max_size=30
    )
)
def test_no_word_of_a_text_is_lost(lines: list[str]) -> None:
    shown = parsed("\n".join(lines)).text
    written = re.findall(r"[a-z]+", "\n".join(lines))
    assert re.findall(r"[a-z]+", shown) == written


# --- what is shown -----------------------------------------------------------------------------------------------------


def test_headings_are_below_the_pages_own_and_have_stable_ids_of_their_own() -> None:
    html = parsed("# Größe & *Maß*\n\n## Step\n\n## Step\n\n###### Deep\n\n# Step-1\n\n# !!!")
    levels = [(tag, attributes["id"]) for tag, attributes in html.elements if tag.startswith("h")]
    assert levels == [
        ("h2", "md-größe--maß"),
        ("h3", "md-step"),
        ("h3", "md-step-1"),
        ("h6", "md-deep"),
        ("h2", "md-step-1-1"),
        ("h2", "md-section"),
    ]


def test_blocks_carry_the_lines_they_came_from() -> None:
    html = parsed("# One\n\ntwo\nlines\n\n- a\n- b\n\n\n```\ncode\n```\n\n| h |\n|---|\n| r |\n")
    lines = {tag: (at["data-line"], at["data-end"]) for tag, at in html.elements if "data-line" in at}
    assert lines["h2"] == ("1", "1")
    assert lines["p"] == ("3", "4")
    assert lines["ul"] == ("6", "7")
    assert lines["pre"] == ("10", "12")
    assert lines["table"] == ("14", "16")
    assert lines["tr"] == ("16", "16")


@settings(max_examples=150, deadline=None)
@given(
    st.lists(
        st.sampled_from(
            "alpha\n|# beta\n|- gamma\n|  - delta\n|> epsilon\n|\n|```\nzeta\n```\n|| eta |\n|---|\n".split("|")
        ),
        max_size=30,
    ).map("".join)
)
def test_a_block_is_on_the_lines_that_it_says(content: str) -> None:
    lines = content.split("\n")

    def words_of(text: str) -> set[str]:
        return set(re.findall(r"[a-z]+", text))

    class Blocks(Parsed):
        """Also keeps the text that is right inside of each element with lines."""

        def __init__(self, html: str) -> None:
            self.found: list[tuple[tuple[int, int], str]] = []
            super().__init__(html)

        def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
            super().handle_starttag(tag, attrs)
            at = dict(attrs)
            if "data-line" in at:
                self.found.append(((int(at["data-line"] or 0), int(at["data-end"] or 0)), ""))

        def handle_data(self, data: str) -> None:
            super().handle_data(data)
            if self.found:
                self.found[-1] = (self.found[-1][0], self.found[-1][1] + data)

    for (first, last), text in Blocks(render(content)).found:
        assert 1 <= first <= last <= len(lines)
        assert words_of(text) <= words_of("\n".join(lines[first - 1 : last]))


def test_the_smallest_blocks_on_cited_lines_are_marked_and_the_first_can_be_jumped_to() -> None:
    content = "before\n\n- one\n- two\n- three\n\n| h |\n|---|\n| r |\n\nafter"
    html = Parsed(render(content, cited=(4, 9)))
    marked = [(tag, at["data-line"], at.get("id")) for tag, at in html.elements if at.get("class") == "cited"]
    assert marked == [("li", "4", "cited"), ("li", "5", None), ("tr", "7", None), ("tr", "9", None)]


def test_of_a_fence_only_the_cited_lines_are_marked() -> None:
    html = render("```py\none\ntwo\nthree\n```\n", cited=(3, 3))
    assert 'id="cited"' in html
    assert '<code class="language-py">one\n<mark class="cited">two</mark>\nthree\n</code>' in html


def test_a_link_to_another_item_leads_to_its_page_and_one_to_nothing_is_marked() -> None:
    html = parsed("[a](../x.md#My%20Part) [b](gone.txt) [c](#My-Part) [d](https://a.example) [e](mailto:a@b.example)")
    assert [at["href"] for at in html.named("a")] == [
        "/items/x.md#md-my-part",
        "#md-my-part",
        "https://a.example",
        "mailto:a@b.example",
    ]
    assert [at.get("class") for at in html.named("span")] == ["broken"]


@pytest.mark.parametrize(
    ("locator", "link", "path"),
    [
        ("a/b/c.md", "d.md", "a/b/d.md"),
        ("a/b/c.md", "../d.md", "a/d.md"),
        ("a/b/c.md", "/d.md", "d.md"),
        ("c.md", "./x/../d.md", "d.md"),
        ("a/b/c.md", "../../../d.md", None),
        ("a/b.md", "..", None),
        ("a.md", "cafe\u0301.md", "café.md"),
    ],
)
def test_a_relative_link_names_a_path_within_the_base(locator: str, link: str, path: str | None) -> None:
    assert target_path(locator, link) == path


def test_pictures_are_named_and_never_loaded() -> None:
    html = parsed(
        "![far](https://a.example/x.png) ![near](x.png) [![badge](https://b.example/y.svg)](https://c.example)"
    )
    assert not html.named("img")
    assert [at["href"] for at in html.named("a")] == ["https://a.example/x.png", "https://c.example"]
    assert "far" in html.text
    assert "near" in html.text
    assert "badge" in html.text


def test_where_a_document_was_divided_is_a_labelled_divider() -> None:
    html = parsed(f"one\n{mark(PlaceKind.PAGE, 12)}\ntwo")
    assert [at["class"] for at in html.named("p") if "class" in at] == ["place"]
    assert html.texts[2] == "page 12"


def test_other_comments_are_shown_as_they_are_and_swallow_nothing() -> None:
    html = parsed("<!-- note *to* self\n\nstill --> and this\n\nafter")
    assert "<!-- note *to* self\n\nstill --> and this" in html.text
    assert html.texts[-2] == "after"


def test_tables_tasks_strikethrough_and_footnotes_are_shown() -> None:
    html = parsed(
        "| a | b |\n|:-:|--:|\n| 1 | 2 |\n\n- [x] done\n- [ ] not\n\n~~gone~~ x[^n]\n\n[^n]: note\n\n[^m]: unused"
    )
    assert {at["class"] for tag, at in html.elements if tag in ("th", "td")} == {"align-center", "align-right"}
    assert [at["aria-label"] for at in html.named("span") if "aria-label" in at] == ["done", "to do"]
    assert html.named("s")
    assert html.named("sup")
    assert [at.get("id") for at in html.named("div") if at.get("class") == "footnote"] == ["md-note-1", None]
    assert "unused" in html.text


def test_what_scrolls_can_be_reached_by_keyboard() -> None:
    html = parsed("```\nx\n```\n\n    y\n\n| a |\n|---|\n| b |\n\n<!-- c -->")
    boxes = [at for tag, at in html.elements if tag == "pre" or at.get("class") == "table"]
    assert [at["tabindex"] for at in boxes] == ["0"] * 4


# --- bounds ------------------------------------------------------------------------------------------------------------

HOSTILE = [
    *HOSTILE_SIGNS,
    ">",
    "!",
    "(",
    "![",
    "[](",
    "**a*",
    "``a`",
    "[^a]: ",
    "- ",
    "|\n|-\n",
    "<!--",
    "<!-- \n",
]


@pytest.mark.parametrize("sign", HOSTILE)
def test_the_time_grows_no_faster_than_the_text(sign: str) -> None:
    assert not grows_too_fast(render, repeated(sign), 2_500)


def test_a_text_over_the_limit_is_shown_as_it_is_written_and_its_fences_are_fences() -> None:
    content = "# <b>\n" + "x" * markdown.LONGEST_STRUCTURED + "\n```\ncode\n```\nlast"
    html = parsed(content)
    assert html.text.replace("\n", "") == content.replace("\n", "")
    assert [(at["data-line"], at["data-end"]) for at in html.named("pre")] == [("1", "2"), ("3", "5"), ("6", "6")]


def test_more_markup_than_the_limit_is_shown_as_it_is_written_in_its_blocks() -> None:
    html = parsed("# *One*\n\n" + "- [a](b.md)\n" * (markdown.MOST_BRACKETS + 1))
    assert not html.named("em")
    assert not html.named("a")
    assert len(html.named("li")) == markdown.MOST_BRACKETS + 1
    assert html.named("h2")[0]["id"] == "md-one"


def test_a_long_fence_stays_a_fence() -> None:
    code = "[x](y)\n" * (markdown.MOST_BRACKETS + 1)
    html = parsed(f"# *One*\n\n```md\n{code}```\n")
    assert html.named("em")
    assert html.named("code") == [{"class": "language-md"}]
    assert code in html.text


def test_the_costliest_text_within_the_limits_is_bounded() -> None:
    content = "![" * markdown.MOST_BRACKETS
    start = time.thread_time()
    render(content)
    assert time.thread_time() - start < 20


def test_a_line_break_is_one_in_any_spelling_and_with_attributes_it_is_text() -> None:
    html = str(render("| a |\n|---|\n| one<br>two<br/>three<BR /> |\n\n<br onclick=x>\n"))
    assert html.count("<br") == 3
    assert "&lt;br onclick=x&gt;" in html
