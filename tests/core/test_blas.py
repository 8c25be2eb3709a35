"""Limits on the threads of BLAS hold inside and end outside."""

from __future__ import annotations

import numpy as np
import pytest
from threadpoolctl import threadpool_info

from halfstep.core.blas import blas_threads, one_blas_thread


def threads() -> list[int]:
    return [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]


def test_a_function_of_small_matrices_runs_on_one_thread_and_gives_the_others_back():
    before = threads()

    @one_blas_thread
    def inside(a: int, *, b: int) -> tuple[list[int], int]:
        """Says what it saw."""
        return threads(), a + b

    seen, total = inside(1, b=2)
    assert total == 3
    assert before
    assert seen == [1] * len(before)
    assert threads() == before
    assert inside.__doc__ == "Says what it saw."


def test_an_error_inside_gives_the_threads_back():
    before = threads()
    with pytest.raises(np.linalg.LinAlgError), blas_threads(1):
        np.linalg.inv(np.zeros((2, 2)))
    assert threads() == before
