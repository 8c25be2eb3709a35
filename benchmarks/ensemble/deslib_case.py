"""KNORA-E and META-DES on one case, run by an interpreter that has DESlib. Must not import this project.

    python deslib_case.py --version
    python deslib_case.py case.npz KNORA-E META-DES       # writes case.out.npz

The case has complete predictions P (n, m) and y (n,) with NaN where unlabelled. The pool is trained already, so its
members only read their column of P; P is also the space in which neighbours are looked for. The labelled instances
are the set for dynamic selection.
"""

import sys
import time

import numpy as np


class Column:
    """A trained classifier whose probabilities stand in column j."""

    def __init__(self, j):
        self.j = j
        self.classes_ = np.array([0, 1])

    def fit(self, X, y):
        return self

    def predict_proba(self, X):
        return np.column_stack([1 - X[:, self.j], X[:, self.j]])

    def predict(self, X):
        return (X[:, self.j] >= 0.5).astype(int)


def main():
    import deslib
    import sklearn
    from deslib.des import KNORAE, METADES

    if sys.argv[1] == "--version":
        print(f"deslib-{deslib.__version__}-sklearn-{sklearn.__version__}")
        return
    path, names = sys.argv[1], sys.argv[2:]
    with np.load(path) as case:
        P, y = case["P"], case["y"]
    P = np.where(np.isnan(P), 0.5, P)  # a classifier of the pool may have failed on some rows
    known = ~np.isnan(y)
    pool = [Column(j) for j in range(P.shape[1])]
    neighbours = min(7, int(known.sum()) - 1)
    makers = {"KNORA-E": KNORAE, "META-DES": METADES}
    out = {}
    for name in names:
        begun = time.perf_counter()
        model = makers[name](pool_classifiers=pool, k=neighbours, DFP=False, random_state=0)
        model.fit(P[known], y[known].astype(int))
        out[name] = model.predict_proba(P)[:, 1]
        out[name + " seconds"] = time.perf_counter() - begun
    np.savez(path[: -len(".npz")] + ".out.npz", **out)


if __name__ == "__main__":
    main()
