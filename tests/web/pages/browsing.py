"""What the tests of pages share: a browser without scripts, and the pages it gets."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from html.parser import HTMLParser
from http.cookies import SimpleCookie
from urllib.parse import quote, urlencode

from tests.web.serving import Answer, Client

VOID = frozenset("area base br col embed hr img input link meta source track wbr".split())
HTML = "text/html; charset=utf-8"


@dataclass
class Element:
    """An element with its attributes (None: one without a value) and what is in it."""

    tag: str
    attributes: dict[str, str | None]
    inside: list[Element | str] = field(default_factory=list)

    def __iter__(self) -> Iterator[Element]:
        """Every element in it, in order."""
        for part in self.inside:
            if isinstance(part, Element):
                yield part
                yield from part

    @property
    def text(self) -> str:
        """Its text, white space as one space."""
        return " ".join("".join(self._texts()).split())

    def _texts(self) -> Iterator[str]:
        for part in self.inside:
            if isinstance(part, str):
                yield part
            else:
                yield from part._texts()

    def get(self, name: str) -> str:
        return self.attributes.get(name) or ""

    def all(self, tag: str = "", **attributes: str) -> list[Element]:
        """The elements in it of that tag (any, if empty) with these attributes; `class_` is one of its classes."""
        return [one for one in self if tag in ("", one.tag) and all(_has(one, *pair) for pair in attributes.items())]

    def one(self, tag: str = "", **attributes: str) -> Element:
        found = self.all(tag, **attributes)
        assert len(found) == 1, f"{len(found)} elements {tag} {attributes}"
        return found[0]

    def link(self, text: str) -> str:
        """Where the link of that text (or accessible name) leads."""
        found = {one.get("href") for one in self.all("a") if text in (one.text, one.get("aria-label"))}
        assert len(found) == 1, f"{found} are called {text}; there are {[one.text for one in self.all('a')]}"
        return found.pop()

    def has_link(self, text: str) -> bool:
        return any(text in (one.text, one.get("aria-label")) for one in self.all("a"))

    def button(self, name: str) -> Element:
        """The form with that button."""
        found = [form for form in self.all("form") if any(_name(one) == name for one in form.all("button"))]
        assert len(found) == 1, f"{len(found)} forms with {name}"
        return found[0]

    def has_button(self, name: str) -> bool:
        return any(_name(one) == name for one in self.all("button"))


def _name(element: Element) -> str:
    return element.get("aria-label") or element.text


def _has(element: Element, name: str, value: str) -> bool:
    if name == "class_":
        return value in element.get("class").split()
    return element.attributes.get(name.replace("_", "-")) == value


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.root = Element("", {})
        self._open = [self.root]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        made = Element(tag, dict(attrs))
        self._open[-1].inside.append(made)
        if tag not in VOID:
            self._open.append(made)

    def handle_endtag(self, tag: str) -> None:
        assert tag in VOID or self._open[-1].tag == tag, f"</{tag}> ends <{self._open[-1].tag}>"
        if tag not in VOID:
            self._open.pop()

    def handle_data(self, data: str) -> None:
        self._open[-1].inside.append(data)


def parsed(html: str) -> Element:
    """The elements of a page, whose tags must close in order."""
    reader = _Reader()
    reader.feed(html)
    reader.close()
    return reader.root


@dataclass(frozen=True)
class Page:
    """An answer to a browser."""

    status: int
    headers: Mapping[str, str]
    html: str

    @property
    def dom(self) -> Element:
        assert self.headers["content-type"] == HTML, self.headers
        return parsed(self.html)

    @property
    def location(self) -> str:
        return self.headers.get("location", "")

    @property
    def main(self) -> Element:
        return self.dom.one("main")

    @property
    def code(self) -> str:
        """The code of the error that it is about."""
        return self.dom.one("code", class_="error-code").text


class Browser:
    """Keeps cookies, and follows nothing by itself."""

    def __init__(self, url: str, token: str | None = None) -> None:
        self._client = Client(url)
        self.cookies: dict[str, str] = {}
        if token is not None:
            signed_in = self.send("/sign-in", {"token": token})
            assert signed_in.status == 303, signed_in.html

    def get(self, path: str, headers: Mapping[str, str] | None = None) -> Page:
        return self._page(self._ask("GET", path, None, {"Accept": "text/html", **(headers or {})}))

    def send(self, path: str, form: Mapping[str, str], headers: Mapping[str, str] | None = None) -> Page:
        """Send a form of these fields, and no others."""
        given = {"Content-Type": "application/x-www-form-urlencoded", "Accept": "text/html", **(headers or {})}
        return self._page(self._ask("POST", path, urlencode(form), given))

    def submit(self, form: Element, **fields: str) -> Page:
        """Fill a form in and send it as a browser would."""
        filled = {one.get("name"): one.get("value") for one in form.all("input") if _counts(one)}
        for select in form.all("select"):
            options = select.all("option")
            chosen = next((one for one in options if "selected" in one.attributes), options[0])
            filled[select.get("name")] = chosen.get("value")
        filled |= fields
        if form.get("method").lower() == "post":
            return self.send(form.get("action"), filled)
        return self.get(f"{form.get('action')}?{urlencode(filled)}")

    def follow(self, page: Page) -> Page:
        assert page.status == 303, (page.status, page.html)
        return self.get(page.location)

    def api(self, method: str, path: str, body: str | None = None, headers: Mapping[str, str] | None = None) -> Answer:
        """What a script of the page asks the JSON interface."""
        return self._ask(method, path, body, {"Content-Type": "application/json", **(headers or {})})

    def _ask(self, method: str, path: str, body: str | None, headers: Mapping[str, str] | None) -> Answer:
        sent = {"Cookie": "; ".join(f"{k}={v}" for k, v in self.cookies.items())} if self.cookies else {}
        answer = self._client.request(method, path.partition("#")[0], body, {**sent, **(headers or {})})
        for name, morsel in SimpleCookie(answer.headers.get("set-cookie", "")).items():
            if morsel["max-age"] == "0":
                self.cookies.pop(name, None)
            else:
                self.cookies[name] = morsel.value
        return answer

    @staticmethod
    def _page(answer: Answer) -> Page:
        return Page(answer.status, answer.headers, answer.body.decode("utf-8"))


def _counts(element: Element) -> bool:
    is_choice = element.get("type") in ("checkbox", "radio")
    return bool(element.get("name")) and (not is_choice or "checked" in element.attributes)


def item_path(item_id: str, view: str = "items", base: str = "platform/runbooks") -> str:
    return f"/bases/{base}/{view}/{quote(item_id)}"
