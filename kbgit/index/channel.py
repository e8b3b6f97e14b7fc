"""One end of a conversation between two processes of kbgit: objects, written to a socket as they are pickled.

What `multiprocessing.connection` sends it holds whole, twice, and reads in pieces, allocating for each all that is left: 12
seconds for 64 MB where new memory is filled (`kbgit.index.allocation`). This takes half a second, in which others go on.
"""

from __future__ import annotations

import pickle
import socket
from typing import Any


class Channel:
    """Sends and receives. Whoever has the other end is trusted: pickles can do anything."""

    def __init__(self, end: socket.socket) -> None:
        """Takes `end` over: it is closed with this."""
        self._incoming, self._outgoing = end.makefile("rb"), end.makefile("wb")
        end.close()  # once both of its files are

    def send(self, message: object) -> None:
        """Send `message`. After whatever this raises the channel is of no use. Raises `OSError` where nobody hears it."""
        pickle.dump(message, self._outgoing, pickle.HIGHEST_PROTOCOL)
        self._outgoing.flush()

    def receive(self) -> Any:  # noqa: ANN401 - whatever was sent
        """Wait for a message. Raises `EOFError` when the other end is closed, amid a message too; `OSError`."""
        try:
            return pickle.load(self._incoming)
        except pickle.UnpicklingError as problem:
            raise EOFError("the other end was closed amid a message") from problem

    def close(self) -> None:
        """Close this end. Raises `OSError` where something sent could not be delivered; it is closed all the same."""
        try:
            self._outgoing.close()
        finally:
            self._incoming.close()
