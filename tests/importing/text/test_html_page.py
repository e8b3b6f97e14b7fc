"""HTML reduced to its text structure: `kbgit.importing.text.html_page` and what it is made of."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from kbgit.importing.text import convert
from kbgit.importing.text.html_page import address_of

SOUP = [
    *"<p> </p> <ul> </ul> <li> </li> <ol> <table> </table> <tr> <td> </td> <h1> </h1> <pre> </pre> <code> </code>".split(),
    *"<blockquote> </blockquote> </a> <br> <hr> <script> </script> </b> <div> </div> <!-- --> <dl> <dt> <dd> </dl>".split(),
    *"<title> </title> <q> <svg> </svg> x *y* [z](w) &lt;b&gt; ``` - # 1. | ! _".split(),
    *("<a href=x>", "<a href=javascript:x>", "<b hidden>", "<img alt=y>"),
]
PARSER = MarkdownIt("commonmark").enable("table")


def markdown(html: str) -> str:
    return convert("x.html", html.encode()).markdown


def title(html: str) -> str:
    return convert("x.html", html.encode()).title


@pytest.mark.parametrize(
    ("html", "expected"),
    [
        ("<h1>Über <em>uns</em></h1><h2>C#</h2><h6>x", "# Über uns\n\n## C\\#\n\n###### x\n"),
        ("<p>one\n two<p>three<br>four</p>", "one two\n\nthree\\\nfour\n"),
        ("just <b>words</b> &amp; more", "just words & more\n"),
        ("<ul><li>a<li>b<ul><li>c</ul><li>d</ul>", "- a\n- b\n  - c\n- d\n"),
        ("<ol start=3><li>a<li>b</ol>", "3. a\n4. b\n"),
        ("<ul><li><p>a<p>b</ul>", "- a\n\n  b\n"),
        ("<dl><dt>t<dd>d<dt>u<dd>e</dl>", "- t\n  - d\n- u\n  - e\n"),
        ("<p>x<ul><li>a<ol start=2><li>b</ol></ul>", "x\n\n- a\n\n  2. b\n"),
        ("<blockquote><p>a<p>b</blockquote>c", "> a\n>\n> b\n\nc\n"),
        ("<blockquote><ul><li>a<li>b</ul></blockquote>", "> - a\n> - b\n"),
        ("<pre>\na\n  b &lt;\n</pre>", "```\na\n  b <\n```\n"),
        ('<pre><code class="language-py hl">```\n</code></pre>', "~~~py\n```\n~~~\n"),
        ("<pre><div>a</div><div>b</div></pre>", "```\na\nb\n```\n"),
        ("<ul><li><pre>a\n\nb</pre></ul>", "- ```\n  a\n\n  b\n  ```\n"),
        ("see <code>a`b</code> and <kbd>^C</kbd>", "see ``a`b`` and `^C`\n"),
        ("<a href='https://x.org/?a=1&amp;b'>x</a>.", "[x](https://x.org/?a=1&b).\n"),
        ("<a href=a><p>x<p>y</a>", "[x](a)\n\n[y](a)\n"),
        ("<a href=a><img src=b alt='a picture'></a>", "[a picture](a)\n"),
        ("Wow!<a href=x>y</a>", "Wow\\![y](x)\n"),
        (
            "<table><tr><th>a<th>b|c<tr><td>1<br>2<td><ul><li>i<li>j</ul></table>",
            "| a | b\\|c |\n| --- | --- |\n| 1 2 | i; j |\n",
        ),
        ("<table><caption>C</caption><tr><td>a<td>b</table>", "C\n\n| a | b |\n| --- | --- |\n"),
        ("<table><tr><td>a<td>b<tr><td>c</table>", "| a | b |\n| --- | --- |\n| c |\n"),
        ("<table><tr><td><h1>a</h1><td><p>b<p>c</table>", "# a\n\nb\n\nc\n"),
        ("<table><tr><td>out<table><tr><td>in<td>n</table><td>er</table>", "out\n\n| in | n |\n| --- | --- |\n\ner\n"),
        ("<table>stray<tr><td>a<td>b</table>", "stray\n\n| a | b |\n| --- | --- |\n"),
        ("a<hr>b", "a\n\n***\n\nb\n"),
        ("<q>x</q>", "“x”\n"),
        ("<p># a<p>- b<p>+ c<p>1. d", "\\# a\n\n\\- b\n\n\\+ c\n\n1\\. d\n"),
        ("<p>> e<p>| f<p>=== <p>~~~ g<p>--- h", "\\> e\n\n\\| f\n\n\\===\n\n\\~\\~~ g\n\n\\--- h\n"),
        ("*a* [b](c) `d` &lt;e&gt; &amp;amp;", "\\*a\\* \\[b\\](c) \\`d\\` \\<e> \\&amp;\n"),
        ("f_g _h_ __i__ \\j \\*", "f_g \\_h\\_ \\_\\_i\\_\\_ \\j \\\\\\*\n"),
        ("5 < 6 <3 a<b", "5 < 6 <3 a\\<b\n"),
        ("", ""),
    ],
)
def test_structure_is_kept(html: str, expected: str) -> None:
    assert markdown(html) == expected


@pytest.mark.parametrize(
    "hidden",
    [
        "<script>SECRET</script>",
        "<script>if (a < b) '</p>SECRET'</script>",
        "<SCRIPT type=x>SECRET</ScRiPt>",
        "<style>SECRET</style>",
        "<!-- SECRET -->",
        "<!-- a > b <p>SECRET</p> -->",
        "<![CDATA[SECRET]]>",
        "<?php SECRET ?>",
        "<!DOCTYPE SECRET>",
        "<p hidden>SECRET</p>",
        "<div style='color: red; display : none'>SECRET<div>SECRET</div>SECRET</div>",
        "<span style='visibility:hidden'>SECRET<span>x</span>SECRET</span>",
        "<i aria-hidden=true>SECRET</i>",
        "<template><p>SECRET</p></template>",
        "<noscript>SECRET</noscript>",
        "<iframe>SECRET</iframe>",
        "<object>SECRET</object>",
        "<svg><title>SECRET</title><text>SECRET</text></svg>",
        "<select><option>SECRET</select>",
        "<textarea>SECRET</textarea>",
        "<button>SECRET</button>",
        "<input value=SECRET>",
        "<img src=SECRET>",
        "<img alt=SECRET hidden>",
        "<meta content=SECRET>",
        "<b onclick=SECRET>x</b>",
    ],
)
def test_what_nobody_reads_is_left_out(hidden: str) -> None:
    found = convert("x.html", f"<p>before</p>{hidden}<p>after</p>".encode())
    assert "SECRET" not in found.markdown
    assert "SECRET" not in found.title
    assert found.markdown.startswith("before\n")
    assert found.markdown.endswith("after\n")


def test_the_text_of_a_form_is_kept_without_its_controls() -> None:
    assert markdown("<form><label>Name</label><input><p>Text of the page</p></form>") == "Text of the page\n"


@pytest.mark.parametrize(
    ("html", "expected"),
    [
        ("<title> A  &amp; B </title><h1>C</h1>", "A & B"),
        ("<h2>First <b>one</b></h2><h1>C</h1>", "First one"),
        ("<p>text", "x.html"),
        ("<title>A</title><svg><title>B</title></svg>", "A"),
        ("<title>never closed", "never closed"),
    ],
)
def test_the_title_is_the_pages_or_its_first_heading(html: str, expected: str) -> None:
    assert title(html) == expected


@pytest.mark.parametrize(
    "href",
    [
        "javascript:alert(1)",
        " \tJavaScript:alert(1)",
        "java\nscript:alert(1)",
        "java\x00script:x",
        "\x01javascript:x",
        "data:text/html,x",
        "vbscript:x",
        "file:///etc/passwd",
        "blob:x",
        "#top",
        "",
        "http://x/" + "a" * 3000,
    ],
)
def test_addresses_that_nobody_should_follow_are_dropped(href: str) -> None:
    assert address_of(href) == ""


@pytest.mark.parametrize(
    ("href", "expected"),
    [
        ("https://x.org/a b", "https://x.org/a%20b"),
        ("a(b)<c>[d]\\", "a%28b%29%3Cc%3E%5Bd%5D%5C"),
        ("mailto:a@b.c", "mailto:a@b.c"),
        ("../x.md#y", "../x.md#y"),
        ("/a?b=c&d", "/a?b=c&d"),
    ],
)
def test_other_addresses_fit_between_markdowns_brackets(href: str, expected: str) -> None:
    assert address_of(href) == expected


def test_an_unclosed_tag_loses_no_text() -> None:
    assert "and the rest" in markdown("<p>a <b and the rest")
    assert "and the rest" in markdown('<a href="x>y</a> and the rest')


def test_deep_nesting_is_flattened() -> None:
    for opening in ("<div>", "<ul><li>", "<blockquote>", "<table><tr><td>", "<span hidden></span><b>", "<dl><dd>"):
        found = markdown(opening * 20_000 + "inside")
        assert "inside" in found
        assert len(found) < 200_000


@settings(max_examples=400, deadline=None)
@given(
    st.lists(
        st.sampled_from(SOUP),
        max_size=25,
    ).map(" ".join)
)
def test_any_soup_of_tags_becomes_markdown_without_html_or_script(html: str) -> None:
    found = markdown(html)
    for token in PARSER.parse(found):
        assert token.type != "html_block", found
        for child in token.children or ():
            assert child.type != "html_inline", found
            assert not re.match(r"(?i)\s*(javascript|data|vbscript):", str(child.attrs.get("href", ""))), found
