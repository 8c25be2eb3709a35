"""Small WALS models, and their objective straight from its documented formula."""

import numpy as np
import scipy.sparse as sp

from halfstep import losses
from halfstep.core import oracle
from halfstep.models.wals import WALS


def small(**changes):
    return WALS(
        **({"rank": 4, "background": 0.1, "reg": 0.05, "tol": 0.0, "dtype": "float64", "random_state": 0} | changes)
    )


def matrix(cells, dtype=np.float64):
    """Weights as a COO matrix, repeated cells kept."""
    return sp.coo_array((cells.weights.astype(dtype), (cells.rows, cells.columns)), shape=cells.shape)


def penalties(model, X):
    """lam of every row and column, straight from the documented formula."""
    dense = sp.csr_array(X).toarray()
    for axis in (1, 0):
        counts = (dense > 0).sum(axis=axis)
        if model.reg_scaling == "constant":
            yield np.full(len(counts), model.reg)
        elif model.reg_scaling == "count":
            yield model.reg * np.maximum(counts, 1)
        else:
            yield model.reg * (counts + model.background * dense.shape[axis]) ** model.reg_scaling


def dense_objective(model, X):
    dense = sp.csr_array(X).toarray()
    rows, columns = np.nonzero(dense)
    U, V = model.user_factors_.astype(float), model.item_factors_.astype(float)
    observed, background = count_factors(model.weight_power, dense), count_factors(model.background_power, dense)
    weights = dense[rows, columns] * observed[rows, columns]
    w0 = model.background * background
    return oracle.objective(
        U, V, rows, columns, np.ones(len(rows)), weights, w0, *penalties(model, X), losses.get(model.loss)
    )


def count_factors(power, dense):
    """(n_i / mean n_i)^p (n_j / mean n_j)^q for every cell, as documented."""
    of_users, of_items = power if isinstance(power, tuple) else (0.0, power)
    users, items = (
        np.maximum((dense > 0).sum(axis=axis), 1) / ((dense > 0).sum() / dense.shape[1 - axis]) for axis in (1, 0)
    )
    return users[:, None] ** of_users * items**of_items
