"""Requests that schemathesis makes of the OpenAPI document, by every kind of caller, and what is wrong with the answers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import hypothesis
import schemathesis
from schemathesis.checks import not_a_server_error
from schemathesis.core.failures import FailureGroup
from schemathesis.core.result import Err
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from kbgit.access import Role, Scope
from kbgit.base import BaseKey
from kbgit.home import Home
from kbgit.web.openapi import DOCUMENT
from tests.web.serving import WorkTree, published

RUNBOOKS = BaseKey("team:platform", "runbooks")
ROLES = {"owner": "ada", "admin": "kim", "member": "max", "viewer": "vera", "stranger": "olga", "nobody": None}
CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]
# What is there, for every other request: texts by chance name nothing, and nothing is all that would be tried.
THERE = {
    **{"space": "platform", "slug": "runbooks", "item_id": "deploy", "user": "max", "name": "vera", "id": "deploy"},
    **{"base": "platform/runbooks", "reference": "knowledge:deploy"},
}


def make_home(path: Path) -> dict[str, str | None]:
    """A home with a team of every role and one published item. Token by role; None for nobody."""
    home = Home.create(path)
    accounts = home.accounts()
    tokens: dict[str, str | None] = {}
    for role, user in ROLES.items():
        tokens[role] = None
        if user is not None:
            accounts.add_user(user, "test", administrator=role == "owner")
            _, tokens[role] = accounts.add_token(user, "test", list(Scope), "test")
    team = accounts.add_team("platform", "ada", "test")
    for user, member in (("kim", Role.ADMIN), ("max", Role.MEMBER), ("vera", Role.VIEWER)):
        accounts.set_member(team, user, member, "test")
    accounts.close()
    home.create_repository(RUNBOOKS)
    work = WorkTree(path.parent / "work")
    work.path.mkdir()
    work.git("init", "--quiet", "--initial-branch=main")
    work.write(
        {"deploy.md": published("Deploy", id="deploy"), "draft.md": "---\ntitle: Draft\nstatus: draft\n---\nx\n"}
    )
    work.git("push", "--quiet", str(RUNBOOKS.repository_path(home.repositories)), "main")
    return tokens


@dataclass
class Findings:
    """What came of the requests of one caller."""

    statuses: Counter[int] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)


def operations() -> Iterator[Any]:
    """Every operation of the document, as schemathesis knows it."""
    for result in schemathesis.openapi.from_dict(DOCUMENT).get_all_operations():
        assert not isinstance(result, Err), result
        yield result.ok()


def try_all(url: str, token: str | None, examples: int, seed: int) -> Findings:
    """Make `examples` requests of each operation as one caller."""
    found = Findings()
    for operation in operations():
        _try(operation, url, token, examples, seed, found)
    return found


def _try(operation: Any, url: str, token: str | None, examples: int, seed: int, found: Findings) -> None:  # noqa: ANN401
    numbers = count()

    @hypothesis.seed(seed)
    @hypothesis.settings(
        max_examples=examples,
        database=None,
        deadline=None,
        phases=[hypothesis.Phase.explicit, hypothesis.Phase.generate],
        suppress_health_check=list(hypothesis.HealthCheck),
    )
    @hypothesis.given(case=operation.as_strategy())
    def request(case: Any) -> None:  # noqa: ANN401
        if next(numbers) % 2 and operation.method.upper() != "DELETE":
            for values in (case.path_parameters, case.query):
                for name in set(values or {}) & set(THERE):
                    values[name] = THERE[name]
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        answer = case.call(base_url=url, headers=headers)
        found.statuses[answer.status_code] += 1
        try:
            case.validate_response(answer, checks=CHECKS)
        except (FailureGroup, AssertionError) as failure:
            found.wrong.append(f"{operation.method.upper()} {operation.path}: {_told(failure)}")

    request()


def _told(failure: BaseException) -> str:
    inner = getattr(failure, "exceptions", [failure])
    return "; ".join(f"{type(one).__name__} {one}" for one in inner)[:2000]
