"""Bases over Git's smart HTTP protocol, served by Git's own `git http-backend`.

    /git/<space>/<base>.git/info/refs?service=git-upload-pack | git-receive-pack
    /git/<space>/<base>.git/git-upload-pack | git-receive-pack

Nothing else is routed, so no file of a repository can be asked for by name. Bodies stream both ways; neither a push nor a
clone is ever held whole. Refusals are plain text, which is what Git shows its user (after `remote:`).
"""

from __future__ import annotations

import asyncio
import logging
import os
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import parse_qs

from kbgit.access import Action, Principal, Target, decide
from kbgit.base import BaseKey
from kbgit.config import ENVIRONMENT_PREFIX, INHERITED, TABLE, Settings
from kbgit.errors import BaseNotFound, Forbidden, InvalidName, KbgitError, NotFound, Unauthenticated
from kbgit.home import Home
from kbgit.hook import RIGHTS, USER, VIA
from kbgit.revision import Via
from kbgit.store.git import Git, clean_environment
from kbgit.web.asgi import Message, Receive, Scope, Send, header, respond_refusal, visit_of
from kbgit.web.auth import BASIC_CHALLENGE, Authenticator, git_caller, refuse_misplaced_token
from kbgit.web.bodies import ClientGone, announced_length, is_gzip, too_large
from kbgit.web.cgi import Exchange, Program
from kbgit.web.errors import MethodNotAllowed, Overloaded
from kbgit.web.push_report import PushReport

log = logging.getLogger("kbgit.git")

PREFIX = "/git/"
_FETCH, _PUSH = "git-upload-pack", "git-receive-pack"
_ADDRESS = re.compile(rf"/git/(?P<space>[^/]+)/(?P<name>[^/]+)/(?P<what>info/refs|{_FETCH}|{_PUSH})")
_GIT_PROTOCOL = re.compile(r"[a-z0-9=.:-]{1,200}")

_MEGABYTE = 1024 * 1024
_FETCH_REQUEST_BYTES = 10 * _MEGABYTE  # what a client may say of its refs; Git's own limit for it
_PUSH_COMMANDS_BYTES = _MEGABYTE  # beside the pack, to which push_max_mb applies
_NICENESS = 5  # pushes and clones yield to searches
_LONGEST_SECONDS = 3600.0  # a whole exchange, however lively


@dataclass(frozen=True, slots=True)
class GitRequest:
    """A request that was admitted. `limit` bounds its body, in bytes after decompression; `moves_refs` is a push."""

    key: BaseKey
    moves_refs: bool
    limit: int
    is_gzip: bool
    environment: Mapping[str, str]


class GitHttp:
    """An ASGI application for everything below `/git/`.

    `notice_push` is told of each push when its refs may have moved, `on_pushed` how many refs it moved and how many it was
    refused. `environment` is the server's own, of which children get a few variables. More than `most_at_once` fetches and
    pushes are refused with `overloaded`.
    """

    def __init__(
        self,
        home: Home,
        accounts: Authenticator,
        notice_push: Callable[[BaseKey], None],
        environment: Mapping[str, str],
        most_at_once: int = 64,
        on_pushed: Callable[[int, int], None] = lambda accepted, refused: None,
    ) -> None:
        self._home = home
        self._accounts = accounts
        self._notice_push = notice_push
        self._environment = clean_environment(
            {name: environment[name] for name in INHERITED if name in environment} | _as_environment(home.settings)
        )
        self._backend = _http_backend(home.repositories, self._environment)
        self._most_at_once = most_at_once
        self._on_pushed = on_pushed
        self._running = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        try:
            # Accounts and files are read in a thread: a locked database must not hold up everyone else.
            request = await asyncio.to_thread(self._admit, scope)
            if self._running >= self._most_at_once:
                raise Overloaded(f"{self._running} fetches and pushes are running; try again in a moment")
        except KbgitError as error:
            await _refuse(scope, send, error)
            return
        self._running += 1
        try:
            await self._exchange(request, scope, receive, send)
        finally:
            self._running -= 1

    # Admission

    def _admit(self, scope: Scope) -> GitRequest:
        match = _ADDRESS.fullmatch(scope["path"])
        parameters = parse_qs(scope["query_string"].decode("latin-1"), keep_blank_values=True)
        if match is None:
            raise NotFound("there is nothing at this address; clone from /git/<space>/<base>.git")
        refuse_misplaced_token(parameters, {})
        is_advertisement = match["what"] == "info/refs"
        services = parameters.get("service", []) if is_advertisement else [match["what"]]
        if services not in ([_FETCH], [_PUSH]):
            raise NotFound("only Git's smart HTTP protocol is served here")
        service = services[0]
        visit_of(scope).route = f"{PREFIX}<space>/<base>.git/{match['what']}"
        expected = "GET" if is_advertisement else "POST"
        if scope["method"] != expected:
            raise MethodNotAllowed(f"this address answers {expected}", {"allowed": [expected]})
        caller = git_caller(self._accounts, header(scope, b"authorization"))
        visit_of(scope).user = caller.user
        key = self._authorized_base(caller, service, match["space"], match["name"])
        limit = _FETCH_REQUEST_BYTES
        if service == _PUSH:
            # Git skips a hook that is missing or not executable, and would let anything in.
            self._home.check_hooks()
            limit = self._home.settings.push_max_mb * _MEGABYTE + _PUSH_COMMANDS_BYTES
        if (announced_length(scope) or 0) > limit:
            raise too_large(limit)
        return GitRequest(
            key=key,
            moves_refs=service == _PUSH and not is_advertisement,
            limit=limit,
            is_gzip=is_gzip(scope),
            environment=self._cgi_environment(scope, key, service, match["what"], caller),
        )

    def _authorized_base(self, caller: Principal, service: str, space: str, name: str) -> BaseKey:
        """The base, if the caller may do this to it. A base the caller may not see is not told from one not there."""
        not_there = BaseNotFound(f"there is no base at {space[:100]}/{name[:110]}, or none that you may see")
        try:
            key = BaseKey.from_path(space, name)
        except InvalidName:
            raise not_there from None
        target = Target(key.space, str(key))
        decision = decide(caller, Action.WRITE_ITEMS if service == _PUSH else Action.FETCH, target)
        if not decision and not decide(caller, Action.READ_PUBLISHED, target):
            raise not_there
        try:
            self._home.repository(key)
        except BaseNotFound:
            raise not_there from None
        if not decision:
            what = "push to" if service == _PUSH else "fetch"
            raise Forbidden(f"you may read {key}, but not {what} it: {decision.rule}", {"rule": decision.rule})
        return key

    def _cgi_environment(
        self, scope: Scope, key: BaseKey, service: str, what: str, caller: Principal
    ) -> dict[str, str]:
        """The environment of `git http-backend` (RFC 3875 and `git help http-backend`), and what the hooks need."""
        target = Target(key.space, str(key))
        rights = [
            word
            for word, action in (("administer", Action.ADMINISTER_BASE), ("delete", Action.DELETE_ITEMS))
            if decide(caller, action, target)
        ]
        environment = {
            **self._environment,
            "GATEWAY_INTERFACE": "CGI/1.1",
            "SERVER_PROTOCOL": f"HTTP/{scope['http_version']}",
            "REQUEST_METHOD": scope["method"],
            "PATH_INFO": f"/{key.relative_path}.git/{what}",
            "QUERY_STRING": f"service={service}" if what == "info/refs" else "",
            "REMOTE_USER": caller.user,
            "REMOTE_ADDR": str((scope.get("client") or ("",))[0]),
            "GIT_PROJECT_ROOT": str(self._home.repositories.resolve()),
            "GIT_HTTP_EXPORT_ALL": "1",
            "GIT_HTTP_MAX_REQUEST_BUFFER": str(_FETCH_REQUEST_BYTES),
            USER: caller.user,
            VIA: Via.PUSH.value,
            RIGHTS: " ".join(rights),
        }
        content_type = header(scope, b"content-type")
        if content_type is not None:
            environment["CONTENT_TYPE"] = content_type[:200]
        # No CONTENT_LENGTH: told one, http-backend waits for it for ever, at full speed, when its input ends early, as it
        # does when this server is killed. What ends early without it is a pack without its checksum, which Git refuses.
        protocol = header(scope, b"git-protocol")
        if protocol is not None and _GIT_PROTOCOL.fullmatch(protocol):
            environment["GIT_PROTOCOL"] = environment["HTTP_GIT_PROTOCOL"] = protocol
        return _with_git_settings(
            environment,
            {
                "receive.maxInputSize": str(self._home.settings.push_max_mb * _MEGABYTE),
                # Whatever a repository's own configuration says, the hooks that run are this home's.
                "core.hooksPath": str(self._home.hooks.resolve()),
            },
        )

    # Exchange

    async def _exchange(self, request: GitRequest, scope: Scope, receive: Receive, send: Send) -> None:
        program = Program(
            # As the program that it is, which spares a process; by way of `git` where an upgrade has just moved it.
            command=(self._backend,) if os.access(self._backend, os.X_OK) else ("git", "http-backend"),
            environment=request.environment,
            directory=self._home.repositories,
            body_limit=request.limit,
            stall_seconds=self._home.settings.git_timeout_seconds,
            longest_seconds=_LONGEST_SECONDS,
            niceness=_NICENESS,
        )
        report = PushReport()

        async def read_along(message: Message) -> None:
            if request.moves_refs and message["type"] == "http.response.body":
                report.feed(message.get("body", b""))
            await send(message)

        exchange = Exchange(program, receive, read_along, gzip=request.is_gzip)
        facts = {"request_id": visit_of(scope).request_id, "base": str(request.key)}
        try:
            await exchange.run()
        except ClientGone:
            log.info("the client went away", extra=facts)
        except KbgitError as error:
            await _refuse(scope, send, error)
        finally:
            if request.moves_refs:
                # Also after one that broke off: its refs may have moved before it did.
                await asyncio.to_thread(self._notice_push, request.key)
                self._on_pushed(report.accepted, report.refused)
            if exchange.stderr or exchange.exit_code:
                log.warning("git http-backend: %s", exchange.stderr, extra=facts | {"exit": exchange.exit_code})
        await exchange.finish()


def _http_backend(directory: Path, environment: Mapping[str, str]) -> str:
    """Where Git has its program `http-backend`; empty if it does not say."""
    with suppress(KbgitError):  # a Git that does not work is for each request to report
        programs = Git(directory, environment=environment).run("--exec-path").decode("utf-8", "surrogateescape")
        return os.path.join(programs.rstrip("\n"), "git-http-backend")
    return ""


async def _refuse(scope: Scope, send: Send, error: KbgitError) -> None:
    headers = []
    if isinstance(error, Unauthenticated):
        headers.append((b"www-authenticate", BASIC_CHALLENGE.encode()))
    if isinstance(error, MethodNotAllowed):
        headers.append((b"allow", ", ".join(error.details["allowed"]).encode()))
    await respond_refusal(scope, send, error, headers)


def _as_environment(settings: Settings) -> dict[str, str]:
    """The settings as the variables that hooks read, so that they judge a push by what this server was told."""
    return {ENVIRONMENT_PREFIX + row.name.upper(): str(getattr(settings, row.name)) for row in TABLE}


def _with_git_settings(environment: dict[str, str], settings: Mapping[str, str]) -> dict[str, str]:
    """`environment` with Git settings for this one call added to those it has."""
    count = int(environment.get("GIT_CONFIG_COUNT", "0"))
    for number, (name, value) in enumerate(settings.items(), start=count):
        environment |= {f"GIT_CONFIG_KEY_{number}": name, f"GIT_CONFIG_VALUE_{number}": value}
    return environment | {"GIT_CONFIG_COUNT": str(count + len(settings))}
