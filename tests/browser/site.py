"""A real server for a real browser: a home with people in every role, and a team with a base."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from kbgit.access import Role, Scope
from kbgit.base import BaseKey
from kbgit.home import Home
from kbgit.importing import BaseOptions, Importer
from tests.web.serving import Client, until

TEAM = "team:harbour"
BASE = BaseKey(TEAM, "engineering-runbooks")
PEOPLE = {"olivia": Role.OWNER, "mia": Role.MEMBER, "victor": Role.VIEWER}


@dataclass(frozen=True)
class Site:
    """Where it answers, and a token for each person."""

    url: str
    home: Path
    tokens: dict[str, str]

    def client(self, user: str) -> Client:
        return Client(self.url, self.tokens[user])

    def base_address(self, key: BaseKey = BASE) -> str:
        space, _, slug = str(key.relative_path).partition("/")
        return f"{self.url}/bases/{space}/{slug}"


@contextmanager
def serving(directory: Path, samples: Path) -> Iterator[Site]:
    """`kbgit serve` on a new home with the sample base, until the context ends."""
    home = Home.create(directory / "home")
    accounts, tokens = home.accounts(), {}
    for number, user in enumerate(PEOPLE):
        accounts.add_user(user, "test", administrator=number == 0)
    accounts.add_team("harbour", "olivia", "test")
    for user, role in PEOPLE.items():
        if role is not Role.OWNER:
            accounts.set_member(TEAM, user, role, "test")
        _, tokens[user] = accounts.add_token(user, "browser", list(Scope), "test")
    accounts.close()
    catalogue = home.catalogue()
    Importer(home, catalogue, "olivia").from_directory(BASE, samples / BASE.slug, BaseOptions())
    catalogue.close()
    settings = {
        "KBGIT_PORT": "0",
        "KBGIT_EMBEDDER": "hashing",
        "KBGIT_LOG_LEVEL": "warning",
        "KBGIT_HOME": str(home.path),
    }
    environment = {**{k: v for k, v in os.environ.items() if not k.startswith(("KBGIT_", "GIT_"))}, **settings}
    with open(directory / "server.log", "wb") as log:
        server = subprocess.Popen(
            [sys.executable, "-m", "kbgit.cli", "serve"], env=environment, stdout=log, stderr=subprocess.STDOUT
        )
        try:
            place = home.path / "server.json"
            until(lambda: place.exists() or server.poll() is not None, 60)
            site = Site(json.loads(place.read_text())["url"], home.path, tokens)
            until(lambda: is_indexed(site), 60)
            yield site
        finally:
            server.terminate()
            server.wait(30)


def is_indexed(site: Site) -> bool:
    """Whether everything that is published is in the index, with its vectors."""
    bases = site.client("olivia").get("/api/v1/bases").json["bases"]
    states = [base["freshness"] for base in bases]
    return all(one["published"] == one["indexed"] and one["passages"] == one["vectors"] for one in states)
