"""The server: one process, one event loop, until it is told to stop."""

from __future__ import annotations

import json
import logging
import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import uvicorn

from kbgit.assemble import Runtime
from kbgit.config import Settings
from kbgit.errors import HomeProblem
from kbgit.home import SERVER_FILE
from kbgit.web.app import create_app
from kbgit.web.asgi import Application, Receive, Scope, Send
from kbgit.web.bodies import Bodies
from kbgit.web.edge import Edge
from kbgit.web.git_http import PREFIX as GIT_PREFIX
from kbgit.web.git_http import GitHttp
from kbgit.web.health import Health, Phase
from kbgit.web.hosts import KnownHosts, Names
from kbgit.web.kept_hooks import kept_hooks
from kbgit.web.limits import RateLimits, SearchGate
from kbgit.web.log import log_to_standard_error
from kbgit.web.mcp_http import McpHttp
from kbgit.web.operating import Operating
from kbgit.web.uploads import Uploads
from kbgit.web.wsgi import Threads

log = logging.getLogger("kbgit.web")

# A search that waits for a commit holds its thread, so there are more of them than processors could use.
_THREADS = 32
_KEEP_ALIVE_SECONDS = 75


def application(runtime: Runtime, environment: Mapping[str, str], operating: Operating | None = None) -> Application:
    """Everything that is served, as one ASGI application. `environment` is the process's own; `operating` gets to know what
    is going on."""
    settings = runtime.home.settings
    operating = operating or Operating.of(runtime)
    metrics = operating.metrics
    runtime.library.on_search = metrics.search
    git = GitHttp(runtime.home, runtime.accounts, runtime.notice_push, environment, on_pushed=metrics.push)
    pages = Threads(create_app(runtime, operating), workers=_THREADS)
    interface = Bodies(SearchGate(pages, settings.searches_at_once), settings.body_max_kb * 1024)

    uploads = Uploads(pages, runtime.documents)
    agents = McpHttp(runtime)

    async def by_address(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["path"].startswith(GIT_PREFIX):
            await git(scope, receive, send)
        elif agents.serves(scope["path"]):
            await agents(scope, receive, send)
        elif uploads.serves(scope):
            await uploads(scope, receive, send)
        else:
            await interface(scope, receive, send)

    limited = RateLimits(by_address, settings, refused=metrics.limited)
    return Edge(KnownHosts(limited, Names(settings)), metrics, settings.trusted_proxy)


def serve(runtime: Runtime, environment: Mapping[str, str], announce: Callable[[str], None] = print) -> None:
    """Serve a home until SIGTERM or SIGINT; `announce` gets one line when requests are answered.

    Requests that run then have the setting stop_seconds to finish. Stops `runtime` at the end, whatever happens. Raises
    `HomeProblem` if the hooks are not in place (pushes would go unchecked) or the address is taken.
    """
    home = runtime.home
    try:
        home.check_gate()
        log_to_standard_error(home.settings.log_level)
        operating = Operating.of(runtime)
        operating.health.phase = Phase.STARTING
        served = application(runtime, environment, operating)
        server = _Server(_uvicorn_config(served, home.settings.stop_seconds), operating.health)
        with _listening(home.settings) as listener, _signals_to(server), kept_hooks(home, environment):
            url = local_url(home.settings, listener)

            def on_ready() -> None:
                _write_server_file(home.path / SERVER_FILE, url)
                announce(f"kbgit answers at {home.settings.public_url or url}")
                log.info("requests are answered under the names %s", Names(home.settings))

            server.on_ready = on_ready
            server.on_exit = runtime.documents.stop_waiting
            runtime.start()
            server.run(sockets=[listener])
    finally:
        (home.path / SERVER_FILE).unlink(missing_ok=True)
        runtime.stop()


def local_url(settings: Settings, listener: socket.socket) -> str:
    """How a process on this machine reaches the server."""
    host, port = listener.getsockname()[:2]
    reachable = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, settings.host)
    return f"http://[{reachable}]:{port}" if ":" in reachable else f"http://{reachable}:{port}"


class _Server(uvicorn.Server):
    """uvicorn, saying when it listens and when it was told to stop."""

    on_ready: Callable[[], None]

    def __init__(self, config: uvicorn.Config, health: Health) -> None:
        super().__init__(config)
        self._health = health
        self.on_exit: Callable[[], None] = lambda: None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._health.phase = Phase.SERVING
        self.on_ready()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self._health.phase = Phase.STOPPING
        self.on_exit()
        super().handle_exit(sig, frame)


def _uvicorn_config(application: Application, stop_seconds: float) -> uvicorn.Config:
    return uvicorn.Config(
        application,
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        # uvloop, which chromadb brings along, copies the whole process to start a program while everything stands still:
        # 20 ms a push at 600 MB, against 0.1 ms.
        loop="asyncio",
        lifespan="off",
        ws="none",
        timeout_keep_alive=_KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=stop_seconds,  # type: ignore[arg-type]  # fractions do as well
    )


@contextmanager
def _listening(settings: Settings) -> Iterator[socket.socket]:
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    # The protocol is named, because asyncio switches Nagle's algorithm off only where it is: otherwise every answer on a
    # kept connection waits for the client's delayed acknowledgement, some 40 ms.
    with socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((settings.host, settings.port))
        except OSError as error:
            raise HomeProblem(
                f"cannot listen on {settings.host}:{settings.port}: {error.strerror}; the settings host and port choose"
            ) from error
        yield listener


@contextmanager
def _signals_to(server: uvicorn.Server) -> Iterator[None]:
    """SIGTERM and SIGINT stop the server, from before it starts until everything else has been put away; SIGHUP does nothing.

    uvicorn does this itself while it serves, but then raises the signal once more, to end the process before that.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, server.handle_exit) for number in (signal.SIGINT, signal.SIGTERM)}
    before[signal.SIGHUP] = signal.signal(signal.SIGHUP, _refuse_to_reload)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _refuse_to_reload(number: int, frame: FrameType | None) -> None:
    """SIGHUP asks many programs to read their settings again, and ends those that did not think of it."""
    log.warning("SIGHUP changes nothing: settings are read at the start; restart the server to change them")


def _write_server_file(path: Path, url: str) -> None:
    """Say where this server is, for commands on this machine; complete or not at all, and for the owner's eyes."""
    draft = path.with_name(f".{path.name}.draft")  # one server owns a home, so what is there was left by a dead one
    draft.unlink(missing_ok=True)
    with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        json.dump({"url": url, "pid": os.getpid()}, file)
    draft.rename(path)
