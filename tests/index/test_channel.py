"""Objects over a socket between two processes."""

from __future__ import annotations

import pickle
import socket
from collections.abc import Iterator
from contextlib import suppress
from threading import Thread

import numpy as np
import pytest

from kbgit.index.channel import Channel


@pytest.fixture
def ends() -> Iterator[tuple[Channel, Channel]]:
    one, other = map(Channel, socket.socketpair())
    yield one, other
    for end in (one, other):
        with suppress(OSError):
            end.close()


def test_messages_arrive_in_order_whatever_their_size(ends: tuple[Channel, Channel]) -> None:
    messages = [
        ("small", 1),
        "\ud800 " * 400_000,
        np.ones((300, 384), np.float32),
        b"",
        [str(n) for n in range(50_000)],
    ]

    def send() -> None:
        for message in messages:
            ends[0].send(message)

    sender = Thread(target=send)
    sender.start()
    received = [ends[1].receive() for _ in messages]
    sender.join()
    assert [pickle.dumps(message) for message in received] == [pickle.dumps(message) for message in messages]


def test_both_ends_send(ends: tuple[Channel, Channel]) -> None:
    ends[0].send("question")
    assert ends[1].receive() == "question"
    ends[1].send("answer")
    assert ends[0].receive() == "answer"


def test_the_end_of_the_other_end_is_told(ends: tuple[Channel, Channel]) -> None:
    ends[0].close()
    with pytest.raises(EOFError):
        ends[1].receive()
    with pytest.raises(OSError):
        ends[1].send("x" * 1_000_000)


@pytest.mark.parametrize("share", [0.01, 0.3, 0.7, 0.99])
def test_a_message_that_was_cut_off_is_none(share: float) -> None:
    message = pickle.dumps([("word " * 20_000), np.ones(5000, np.float32), 7], pickle.HIGHEST_PROTOCOL)
    one, other = socket.socketpair()
    channel = Channel(other)

    def cut() -> None:
        with one:
            one.sendall(message[: int(len(message) * share)])

    sender = Thread(target=cut)
    sender.start()
    with pytest.raises(EOFError):
        channel.receive()
    sender.join()
    channel.close()
