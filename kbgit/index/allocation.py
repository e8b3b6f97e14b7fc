"""Keeping what other memory held out of files that a library writes from memory it never filled.

Chroma's graph library (hnswlib) allocates room for more vectors than it has and writes all of it out. What the allocator
hands it may have held a passage, a key or a token a moment ago. glibc can fill every block as it is handed out
(mallopt(3), M_PERTURB); elsewhere nothing is done.
"""

from __future__ import annotations

import ctypes
from functools import cache

_M_PERTURB = -6
_FILLING = 0xFF  # blocks are handed out filled with its complement, zeros


@cache
def fill_new_memory() -> bool:
    """From now on, fill every block of memory that this process is handed. Whether the system's allocator does."""
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError):
        return False
    return bool(mallopt(_M_PERTURB, _FILLING))
