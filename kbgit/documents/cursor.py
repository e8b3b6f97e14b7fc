"""Cursors that tell nothing: a number of the queue, sealed.

Numbers of rows and events count what everybody uploaded. A caller gets them only as a text that looks random each time, that
nobody but this home can read, and that cannot be made up.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import secrets

from kbgit.errors import InvalidRequest

_NONCE_BYTES = 8
_NUMBER_BYTES = 8
_SEAL_BYTES = 8


class Cursors:
    """Seals and opens the numbers of one home; `key` has 32 random bytes."""

    def __init__(self, key: bytes) -> None:
        self._key = key

    def seal(self, number: int, purpose: str) -> str:
        """A cursor for `number`, good for `purpose` alone."""
        nonce = secrets.token_bytes(_NONCE_BYTES)
        hidden = _xor(number.to_bytes(_NUMBER_BYTES, "big"), self._pad(nonce))
        return base64.urlsafe_b64encode(nonce + hidden + self._seal(nonce + hidden, purpose)).decode()

    def open(self, text: str, purpose: str, parameter: str) -> int:
        """The number in a cursor that came as `parameter`. Raises `InvalidRequest` for one that `seal` did not make."""
        try:
            raw = base64.urlsafe_b64decode(text.encode("ascii"))
        except (UnicodeEncodeError, binascii.Error):
            raw = b""
        nonce, hidden, seal = raw[:_NONCE_BYTES], raw[_NONCE_BYTES:-_SEAL_BYTES], raw[-_SEAL_BYTES:]
        is_whole = len(hidden) == _NUMBER_BYTES
        if not is_whole or not hmac.compare_digest(seal, self._seal(nonce + hidden, purpose)):
            raise InvalidRequest(
                f"parameter `{parameter}` is no cursor that this address gave out", {"parameter": parameter}
            )
        return int.from_bytes(_xor(hidden, self._pad(nonce)), "big")

    def _pad(self, nonce: bytes) -> bytes:
        return hmac.digest(self._key, b"pad" + nonce, "sha256")[:_NUMBER_BYTES]

    def _seal(self, hidden: bytes, purpose: str) -> bytes:
        return hmac.digest(self._key, b"seal" + hidden + purpose.encode(), "sha256")[:_SEAL_BYTES]


def _xor(one: bytes, other: bytes) -> bytes:
    return bytes(a ^ b for a, b in zip(one, other, strict=True))
