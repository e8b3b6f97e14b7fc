"""Limits on how much one caller may ask for, applied before any work is spent on a request.

A caller is a token or a browser's session that was found good a moment ago, else the address that the request came from. So
nobody gains by making tokens up: until one is found good, its requests count for the address. Failed sign-ins are counted
beside that, by address; where there were too many, that address must wait, and the good tokens behind it need not.

Everything here runs on the event loop, and remembers a bounded number of callers: the one unseen for longest is forgotten,
and so begins anew.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import hashlib
import ipaddress
import math
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import TypeVar

from kbgit.config import Settings
from kbgit.errors import KbgitError
from kbgit.web.asgi import Application, Message, Receive, Scope, Send, Visit, header, respond_refusal, visit_of
from kbgit.web.errors import Overloaded, RateLimited
from kbgit.web.hosts import HEALTH
from kbgit.web.session_cookie import COOKIE

MOST_REMEMBERED = 10_000
_SEARCHES = frozenset({"/", "/me", "/api/v1/knowledge/search", "/api/v1/recall"})
_QUEUE_SECONDS = 10.0
_Value = TypeVar("_Value")


class Buckets:
    """A token bucket a key: `burst` at once, `per_minute` in the long run (0: any number). `clock` is in seconds."""

    def __init__(
        self, per_minute: float, burst: float, clock: Callable[[], float] = time.monotonic, most: int = MOST_REMEMBERED
    ) -> None:
        self._per_second = per_minute / 60
        self._burst = burst
        self._clock = clock
        self._levels: _Remembered[tuple[float, float]] = _Remembered(most)

    def __len__(self) -> int:
        return len(self._levels)

    def wait(self, key: str) -> float:
        """Seconds until there is something to take for `key`; 0 if there is now."""
        missing = 1 - self._level(key)
        return 0.0 if not self._per_second or missing <= 0 else missing / self._per_second

    def take(self, key: str) -> None:
        """Take one, whether or not it is there: a level never falls below zero."""
        if self._per_second:
            self._levels.put(key, (max(0.0, self._level(key) - 1), self._clock()))

    def _level(self, key: str) -> float:
        known = self._levels.get(key)
        if known is None:
            return self._burst
        level, at = known
        return min(self._burst, level + (self._clock() - at) * self._per_second)


class RateLimits:
    """Wraps an ASGI application. `refused` is told the kind of each refusal: `requests` or `failed_sign_ins`."""

    def __init__(
        self,
        application: Application,
        settings: Settings,
        refused: Callable[[str], None] = lambda kind: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._application = application
        self._refused = refused
        self._requests = Buckets(settings.rate_per_minute, settings.rate_burst, clock)
        most_failures = settings.failed_sign_ins_per_minute
        self._failures = Buckets(most_failures, max(1, most_failures), clock)
        self._good: _Remembered[bool] = _Remembered(MOST_REMEMBERED)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, or refuse it. `/healthz` always answers."""
        if scope["type"] != "http" or scope["path"] == HEALTH:
            await self._application(scope, receive, send)
            return
        visit = visit_of(scope)
        credential = presented(scope)
        address = address_block(visit.client)
        is_good = credential is not None and self._good.get(credential) is not None
        visit.caller = credential if is_good and credential is not None else address
        try:
            self._admit(
                visit, address, may_sign_in=not is_good and (credential is not None or scope["method"] == "POST")
            )
        except RateLimited as error:
            await respond_refusal(scope, send, error, [_retry_after(error)])
            return

        async def watched_send(message: Message) -> None:
            if message["type"] == "http.response.start":
                self._note(scope, visit, credential, address, message["status"])
            await send(message)

        await self._application(scope, receive, watched_send)

    def _admit(self, visit: Visit, address: str, *, may_sign_in: bool) -> None:
        seconds = self._failures.wait(address) if may_sign_in else 0.0
        if seconds:
            self._refused("failed_sign_ins")
            raise _limited("too many failed sign-ins from this address", seconds)
        seconds = self._requests.wait(visit.caller)
        if seconds:
            self._refused("requests")
            raise _limited("too many requests", seconds)
        self._requests.take(visit.caller)

    def _note(self, scope: Scope, visit: Visit, credential: str | None, address: str, status: int) -> None:
        """What came of it, when the answer begins: by then the caller is known, if ever."""
        if status == 401 and (credential is not None or _is_form(scope)):
            self._failures.take(address)
            if credential is not None:
                self._good.drop(credential)
        elif credential is not None and visit.user:
            self._good.put(credential, True)


class SearchGate:
    """Wraps an ASGI application: at most `at_once` searches run, and half as many for one caller; the others wait.

    A search that waits for a commit holds a thread of those that answer everything else. Raises nothing; a search that
    waited too long is answered with `overloaded`.
    """

    def __init__(self, application: Application, at_once: int, seconds: float = _QUEUE_SECONDS) -> None:
        self._application = application
        self._seconds = seconds
        self._each = max(1, at_once // 2)
        self._all = asyncio.Semaphore(at_once)
        self._of: dict[str, _Place] = {}

    @property
    def waiting(self) -> int:
        """How many callers have searches that run or wait."""
        return len(self._of)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on when its turn comes."""
        if scope["type"] != "http" or scope["path"] not in _SEARCHES:
            await self._application(scope, receive, send)
            return
        try:
            async with self._turn(visit_of(scope).caller):
                await self._application(scope, receive, send)
        except Overloaded as error:
            await respond_refusal(scope, send, error, [_retry_after(error)])

    @asynccontextmanager
    async def _turn(self, caller: str) -> AsyncIterator[None]:
        place = self._of.setdefault(caller, _Place(asyncio.Semaphore(self._each)))
        place.users += 1
        try:
            async with self._entered(place.turn), self._entered(self._all):
                yield
        finally:
            place.users -= 1
            if not place.users:
                del self._of[caller]

    @asynccontextmanager
    async def _entered(self, turn: asyncio.Semaphore) -> AsyncIterator[None]:
        try:
            async with asyncio.timeout(self._seconds):
                await turn.acquire()
        except TimeoutError:
            raise Overloaded("too many searches are running; try again in a moment", {"retry_after": 1}) from None
        try:
            yield
        finally:
            turn.release()


@dataclass
class _Place:
    """One caller's turns, while they have any."""

    turn: asyncio.Semaphore
    users: int = 0


class _Remembered(OrderedDict[str, _Value]):
    """The values of the `most` keys that were used last."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self._most = most

    def put(self, key: str, value: _Value) -> None:
        self[key] = value
        self.move_to_end(key)
        while len(self) > self._most:
            self.popitem(last=False)

    def drop(self, key: str) -> None:
        self.pop(key, None)


def presented(scope: Scope) -> str | None:
    """The credential that came with a request, as a name that does not give it away; None if none came.

    A token is one caller whether it comes as Bearer or, from Git, as the password of Basic.
    """
    authorization = header(scope, b"authorization")
    if authorization is not None:
        scheme, _, rest = authorization.partition(" ")
        text = rest.strip()
        if scheme.lower() == "basic":
            with suppress(binascii.Error):  # then it is no token, but still one caller's
                text = base64.b64decode(text, validate=True).decode("latin-1").partition(":")[2]
        return "token:" + _digest(text)
    for part in (header(scope, b"cookie") or "").split(";"):
        name, _, value = part.strip().partition("=")
        if name.endswith(COOKIE):
            return "session:" + _digest(value)
    return None


def address_block(client: str) -> str:
    """The address for which a request counts: of IPv6 the /64, because that is what one customer is given."""
    try:
        address = ipaddress.ip_address(client)
    except ValueError:
        return f"address:{client}"
    if isinstance(address, ipaddress.IPv6Address):
        if address.ipv4_mapped is None:
            return f"address:{ipaddress.IPv6Network((int(address), 64), strict=False)}"
        return f"address:{address.ipv4_mapped}"
    return f"address:{address}"


def _is_form(scope: Scope) -> bool:
    """Whether this may be a page's form, in which a credential can be typed."""
    return (header(scope, b"content-type") or "").lower().startswith("application/x-www-form-urlencoded")


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _limited(what: str, seconds: float) -> RateLimited:
    whole = max(1, math.ceil(seconds))
    return RateLimited(f"{what}; try again in {whole} s", {"retry_after": whole})


def _retry_after(error: KbgitError) -> tuple[bytes, bytes]:
    return b"retry-after", str(error.details["retry_after"]).encode()
