"""Who is calling: the Authorization header and nothing else.

A token in an address ends up in histories and logs, and one in a cookie is sent by any page the browser visits, so
both are refused even where the header is right.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping, Sequence
from typing import Protocol

from kbgit.access import Principal
from kbgit.errors import Unauthenticated

REALM = "kbgit"
BEARER_CHALLENGE = f'Bearer realm="{REALM}"'
BASIC_CHALLENGE = f'Basic realm="{REALM}", charset="UTF-8"'

_TOKEN_SHAPED = re.compile(r"kbgit_[0-9a-f]{12}_")
_TOKEN_PARAMETERS = frozenset({"access_token", "token", "api_key"})


class Authenticator(Protocol):
    """Knows whose a token is: `Accounts`."""

    def authenticate(self, text: str) -> Principal:
        """Who holds this token. Raises `Unauthenticated`."""
        ...


def refuse_misplaced_token(parameters: Mapping[str, Sequence[str]], cookies: Mapping[str, str]) -> None:
    """Raises `Unauthenticated` when a token came in the query string or in a cookie."""
    in_address = not _TOKEN_PARAMETERS.isdisjoint(parameters) or any(
        _TOKEN_SHAPED.search(value) for values in parameters.values() for value in values
    )
    if in_address:
        raise Unauthenticated(
            "a token in the address is refused, because addresses are logged; revoke it, and send a new one as "
            "`Authorization: Bearer <token>`"
        )
    if any(_TOKEN_SHAPED.search(value) for value in cookies.values()):
        raise Unauthenticated("a token in a cookie is refused; send it as `Authorization: Bearer <token>`")


def bearer_caller(accounts: Authenticator, authorization: str | None) -> Principal:
    """The holder of the bearer token in an Authorization header. Raises `Unauthenticated`."""
    if authorization is None:
        raise Unauthenticated("send your token as `Authorization: Bearer <token>`")
    scheme, _, credentials = authorization.partition(" ")
    if scheme.lower() != "bearer":
        # The scheme is not repeated: a token sent without one would be repeated with it.
        raise Unauthenticated("this scheme of authorization is not used here; send `Authorization: Bearer <token>`")
    return accounts.authenticate(credentials.strip())


def git_caller(accounts: Authenticator, authorization: str | None) -> Principal:
    """The same for Git clients, which send the token as the password of HTTP Basic; the user name says nothing."""
    scheme, _, credentials = (authorization or "").partition(" ")
    if scheme.lower() != "basic":
        return bearer_caller(accounts, authorization)
    try:
        _, _, password = base64.b64decode(credentials.strip(), validate=True).decode("utf-8").partition(":")
    except (binascii.Error, UnicodeDecodeError):
        raise Unauthenticated("the Authorization header is malformed") from None
    return accounts.authenticate(password)
