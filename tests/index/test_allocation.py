"""Memory that a library writes out without having filled it holds nothing of what was there before."""

from __future__ import annotations

import ctypes
import sys

import pytest

from kbgit.index.allocation import fill_new_memory


@pytest.mark.skipif(sys.platform != "linux", reason="the allocator of other systems has no such switch")
def test_new_memory_holds_nothing_of_what_was_freed() -> None:
    if not fill_new_memory():
        pytest.skip("this C library cannot fill new memory")
    library = ctypes.CDLL(None)
    library.malloc.restype = ctypes.c_void_p
    library.free.argtypes = [ctypes.c_void_p]
    size, secret = 4096, b"zanzibarcanary" * 200
    for _ in range(50):
        block = library.malloc(size)
        ctypes.memmove(block, secret, len(secret))
        library.free(block)
        again = library.malloc(size)
        assert b"zanzibarcanary" not in ctypes.string_at(again, size)
        library.free(again)
