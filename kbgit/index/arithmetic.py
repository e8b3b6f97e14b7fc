"""One thread for each matrix product.

NumPy's OpenBLAS splits products over threads of its own. When several of a server's threads ask it at once, it can wait for
a worker that never answers (seen under load: `exec_blas` spinning for ever, and with it every search of that base). Searches
run side by side anyway, so a product that keeps to its own thread loses nothing: 18,609 vectors take a millisecond or two.
"""

from __future__ import annotations

from functools import cache

from threadpoolctl import threadpool_limits


@cache
def keep_to_one_thread() -> None:
    """From now on, a matrix product of this process runs on the thread that asks for it."""
    threadpool_limits(1, user_api="blas")
