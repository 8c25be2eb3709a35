"""Threads that the system refuses, numbers that no machine bears, and doors of the core that look at every index."""

import subprocess
import sys

import numpy as np
import pytest

import halfstep as hs
from halfstep import _core

from .zoo import P3, Y3, P, Y, answers, fitted

REFUSED = """
import os, resource, threading
import numpy as np
import halfstep as hs
from halfstep import _core

X = np.random.default_rng(0).poisson(0.3, (600, 300)).astype(np.float64)
fit = lambda n: hs.WALS(rank=8, max_iter=2, random_state=0, n_threads=n).fit(X)
before = fit(2)
resource.setrlimit(resource.RLIMIT_NPROC, (0, 0))
if os.geteuid() == 0:
    os.setuid(65534)  # no limit holds for root
try:
    threading.Thread(target=len).start()
    print("granted")
except RuntimeError:
    after = fit(8)
    same = np.array_equal(before.user_factors_, after.user_factors_)
    lists = np.array_equal(before.recommend([1, 2], 3).scores, after.recommend([1, 2], 3).scores)
    print("refused", same, lists)
"""


@pytest.mark.heavy
def test_a_refused_thread_leaves_its_work_to_the_others():
    pytest.importorskip("resource")
    done = subprocess.run([sys.executable, "-c", REFUSED], capture_output=True, text=True)
    if done.stdout == "granted\n":
        pytest.skip("the limit of processes does not hold here")
    assert (done.returncode, done.stdout) == (0, "refused True True\n"), done.stderr


@pytest.mark.parametrize("n_threads", [2**31 - 1, 2**40])
def test_as_many_threads_as_nobody_has_are_cut_to_what_the_machine_bears(n_threads):
    X = np.random.default_rng(0).poisson(0.5, (12, 9)).astype(np.float64)
    one, many = (hs.WALS(rank=2, max_iter=2, random_state=0, n_threads=n).fit(X) for n in (1, n_threads))
    np.testing.assert_array_equal(one.user_factors_, many.user_factors_)
    np.testing.assert_array_equal(one.recommend([0, 1], 3).scores, many.recommend([0, 1], 3).scores)


@pytest.mark.parametrize(("given", "y"), [(P, Y), (P3, Y3)], ids=["two", "three"])
def test_bits_of_the_averaged_family_do_not_depend_on_threads(given, y):
    many = np.tile(given, (60, 4) if given.ndim == 2 else (60, 4, 1))  # large enough for BLAS to share out
    many = np.clip(many + np.random.default_rng(0).normal(0, 0.02, many.shape), 0.01, 0.99)
    if many.ndim == 3:
        many /= many.sum(axis=2, keepdims=True)
    labels = np.tile(y, 60)
    fits = [hs.CFEnsembleCV(ranks=(1, 4), n_threads=n).fit(many, labels) for n in (1, 2, 5, None)]
    for ask in (
        lambda m: m.predict_proba(),
        lambda m: m.predict_proba(many[:70]),
        lambda m: m.uncertainty(many[:70]),
        lambda m: m.novelty(),
        lambda m: m.classifier_weights_,
    ):
        first, *others = (ask(m) for m in fits)
        for other in others:
            np.testing.assert_array_equal(first, other)


LEFT, RIGHT = np.ones((2, 3)), np.ones((4, 3))
FALLING = np.array([0, 3, 2])
INDICES = np.array([0, 1], np.int32)
HUGE = np.array([0, 2**31 - 1], np.int32)


@pytest.mark.parametrize(
    "call",
    [
        lambda: _core.top_k(LEFT, RIGHT, 2, None, FALLING, INDICES, n_threads=1),
        lambda: _core.top_k(LEFT, RIGHT, 2, None, np.array([1, 1, 2]), INDICES, n_threads=1),
        lambda: _core.top_k(LEFT, RIGHT, 2, None, np.array([0, 1, 2]), HUGE, n_threads=1),
        lambda: _core.top_k(LEFT, RIGHT, 2, np.array([0, 2]), None, None, n_threads=1),
        lambda: _core.pair_scores(LEFT, RIGHT, np.array([0, 2]), np.array([0, 1]), n_threads=1),
        lambda: _core.pair_scores(LEFT, RIGHT, np.array([0, 1]), np.array([0, -1]), n_threads=1),
        lambda: _core.transpose(FALLING, INDICES, 4, []),
        lambda: _core.transpose(np.array([0, 1, 2]), HUGE, 4, []),
        lambda: _core.best_of_product(
            (FALLING, INDICES, np.ones(2)), (np.array([0, 1, 2]), INDICES, np.ones(2)), INDICES, 2, 1, None, n_threads=1
        ),
    ],
)
def test_no_door_of_the_core_takes_an_index_that_leads_outside(call):
    with pytest.raises((ValueError, IndexError), match=r"must|no CSR|does not match|outside"):
        call()


def test_a_model_asked_for_more_threads_answers_as_before():
    model = fitted("WALS")
    before = answers("WALS", model)
    other = hs.WALS(**(model.get_params() | {"n_threads": 10**9}))
    other.fitted_ = model.fitted_
    for ours, theirs in zip(before, answers("WALS", other), strict=True):
        np.testing.assert_array_equal(ours, theirs)
