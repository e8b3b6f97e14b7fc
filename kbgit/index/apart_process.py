"""The process that writes the index for another: `python -I -m kbgit.index.apart_process DIRECTORY`; see `kbgit.index.apart`.

Standard input is a socket. With each message on it comes another socket, for one conversation: a request is a name with
arguments, an answer is what the request gives or why it failed. When the first socket ends, so does this process, wherever
it is: whoever it wrote for has ended.
"""

from __future__ import annotations

import gc
import os
import signal
import socket
import sys
import threading
import traceback
from collections.abc import Callable, Mapping
from contextlib import closing, suppress
from functools import cache
from pathlib import Path
from typing import NoReturn

from kbgit.errors import IndexDamaged, IndexFailure
from kbgit.index.arithmetic import keep_to_one_thread
from kbgit.index.channel import Channel
from kbgit.index.chroma import Collection
from kbgit.index.garbage import collect_garbage
from kbgit.index.lexical_files import write_state
from kbgit.index.writer import Failed

CONVERSE = b"c"
"""The message that comes with a conversation's socket."""
_NICENESS = 5  # searches come first
_MOST_PLACES = 8


def main() -> NoReturn:
    """Converse until standard input ends."""
    control = socket.socket(fileno=sys.stdin.fileno())
    os.nice(_NICENESS)
    for of_all in (signal.SIGINT, signal.SIGTERM):  # they mean the one it writes for, which then ends this one
        signal.signal(of_all, signal.SIG_IGN)
    keep_to_one_thread()
    while True:
        message, descriptors, _, _ = socket.recv_fds(control, len(CONVERSE), 1)
        if not message:
            os._exit(0)
        for descriptor in descriptors:  # none where there is no room for one more: then the other side finds it closed
            channel = Channel(socket.socket(fileno=descriptor))
            threading.Thread(target=_converse, args=(channel,), daemon=True).start()


def _converse(channel: Channel) -> None:
    """Answer until the other side closes."""
    opened: list[Collection] = []
    requests = _requests(opened)
    with suppress(EOFError, OSError), closing(channel):  # nobody is left to hear the answer
        try:
            while True:
                request, arguments = channel.receive()
                channel.send(_answer(requests, request, arguments))
        finally:
            for collection in opened:
                with suppress(IndexFailure):  # what is not whole has no stamp
                    collection.close()


def _requests(opened: list[Collection]) -> Mapping[str, Callable[..., object]]:
    """What can be asked for. At most one collection is open in a conversation, and in `opened`."""

    def written(*arguments: object) -> None:
        write_state(*arguments)  # type: ignore[arg-type]
        collect_garbage()

    def opens(directory: Path) -> None:
        opened.append(Collection(directory))
        _keep_what_is_loaded()

    def close() -> None:
        opened.pop().close()

    return {
        "write_state": written,
        "open_vectors": opens,
        "keys": lambda: opened[0].keys(),
        "count": lambda: opened[0].count(),
        "fetch": lambda keys: opened[0].fetch(keys),
        "nearest": lambda query, count: opened[0].nearest(query, count),
        "add": lambda keys, matrix: opened[0].add(keys, matrix),
        "delete": lambda keys: opened[0].delete(keys),
        "close": close,
    }


@cache
def _keep_what_is_loaded() -> None:
    """Once Chroma is loaded: looking for garbage need not go through all of its code each time."""
    gc.collect()
    gc.freeze()


def _answer(requests: Mapping[str, Callable[..., object]], request: str, arguments: tuple[object, ...]) -> object:
    try:
        return requests[request](*arguments)
    except IndexDamaged as error:
        return Failed(error.message, is_damage=True)
    except IndexFailure as error:
        return Failed(error.message, is_damage=False)
    except Exception as error:  # noqa: BLE001 - a fault of ours is told to the one who waits, and must not leave it waiting
        return Failed(f"the index could not be written: {_described(error)}", is_damage=False)


def _described(error: Exception) -> str:
    """The type and the places of an error, the innermost first; its message may quote what was being indexed."""
    places = reversed(traceback.extract_tb(error.__traceback__)[-_MOST_PLACES:])
    return f"{type(error).__name__} at {', '.join(f'{Path(place.filename).name}:{place.lineno}' for place in places)}"


if __name__ == "__main__":
    main()
