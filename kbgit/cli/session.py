"""What one run of the program was told: which home, which server, which environment."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from kbgit.errors import Unauthenticated

HOME = "KBGIT_HOME"
SERVER = "KBGIT_SERVER"
TOKEN = "KBGIT_TOKEN"
EMBEDDER_API_KEY = "KBGIT_EMBEDDER_API_KEY"
DEFAULT_HOME = "~/.kbgit"


@dataclass
class Session:
    """The options that every command shares, over the environment. Nothing is opened until it is asked for."""

    environment: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))
    given_home: Path | None = None
    given_server: str | None = None

    @property
    def home_path(self) -> Path:
        """--home, else KBGIT_HOME, else ~/.kbgit; absolute."""
        chosen = self.given_home or Path(self.environment.get(HOME) or DEFAULT_HOME)
        return Path(os.path.abspath(chosen.expanduser()))

    @property
    def server(self) -> str | None:
        """--server, else KBGIT_SERVER unless --home was given; None: this machine's home."""
        if self.given_server or self.given_home:
            return self.given_server
        return self.environment.get(SERVER) or None

    @property
    def token(self) -> str:
        """The token for `server`. Raises `Unauthenticated`."""
        found = self.environment.get(TOKEN, "").strip()
        if not found:
            raise Unauthenticated(f"a server of another machine wants a token; put it in the variable {TOKEN}")
        return found

    @property
    def embedder_api_key(self) -> str | None:
        """The key of a remote embedder."""
        return self.environment.get(EMBEDDER_API_KEY) or None
