"""The wire of a program that speaks JSON-RPC over standard input and output. Needs nothing but the standard library.

Nothing else reaches standard output: while the wire is open, descriptor 1 points at standard error, so what a library
prints, a child writes or Python warns of goes there.
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress


@contextmanager
def standard_output() -> Iterator[io.TextIOWrapper]:
    """A text stream to the real standard output, which nobody else has meanwhile."""
    sys.stdout.flush()
    private = os.dup(1)
    os.dup2(2, 1)
    stdout, sys.stdout = sys.stdout, sys.stderr
    output = io.TextIOWrapper(os.fdopen(private, "wb"), encoding="utf-8", errors="backslashreplace", newline="\n")
    try:
        yield output
    finally:
        sys.stdout = stdout
        with suppress(OSError):  # the client may be gone
            output.flush()
        os.dup2(private, 1)
        with suppress(OSError):
            output.close()
