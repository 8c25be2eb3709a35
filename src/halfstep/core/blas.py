"""How many threads BLAS and LAPACK may use. The one place that asks for it; knows nothing else."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import cache, wraps
from typing import Any, ParamSpec, TypeVar

Given = ParamSpec("Given")
Answer = TypeVar("Answer")


def blas_threads(n: int | None) -> AbstractContextManager[Any]:
    """Within the block, NumPy's and SciPy's linear algebra runs on at most `n` threads; None leaves it as it is."""
    if n is None:
        return nullcontext()
    limits: AbstractContextManager[Any] = _controller("scipy.linalg" in sys.modules).limit(limits=n, user_api="blas")
    return limits


def one_blas_thread(function: Callable[Given, Answer]) -> Callable[Given, Answer]:
    """A function of small matrices, whose linear algebra runs on one thread.

    Threads that wait for each other cost such a function more than they save, many times more where other work has the
    cores; and the bits of a sum would depend on how many there are.
    """

    @wraps(function)
    def run(*args: Given.args, **kwargs: Given.kwargs) -> Answer:
        with blas_threads(1):
            return function(*args, **kwargs)

    return run


@cache
def _controller(scipy: bool) -> Any:
    """Of the libraries that are loaded: NumPy's, and later SciPy's."""
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()
