"""WALS: recommendations from implicit feedback, by weighted alternating least squares. A name for a composition."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any, NamedTuple, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from halfstep import losses, persistence
from halfstep.cluster import OnCluster
from halfstep.engine import LocalEngine, Outcome, Problem, Side, Solver, alternate
from halfstep.engine.alternate import Callback, measure
from halfstep.engine.initial import INITS, seed_from
from halfstep.engine.local import gram_matrix, solve_rows, thread_count
from halfstep.engine.problem import METHODS, scaled_penalty
from halfstep.errors import check_number, one_of
from halfstep.inputs import read_table
from halfstep.memory import MemoryEstimate, fit_memory
from halfstep.metrics import ndcg_at_k
from halfstep.names import labels_of
from halfstep.observations import Observations
from halfstep.plots import WALSPlots
from halfstep.recommend import Ranking, Recommender, top_k
from halfstep.tables import Table, from_saved, merge, to_arrays


class _ScoreAndParts(NamedTuple):
    score: float
    ids: NDArray[Any]
    contributions: NDArray[np.float64]


class Explanation(_ScoreAndParts):
    """Why an item scores what it scores: what each given item contributes. Contributions sum to the score.

    A triple: `score, ids, contributions = explanation`. `labels` has the titles of `ids` where the model knows any.
    """

    labels: NDArray[Any] | None

    def __new__(cls, score: float, ids: Any, contributions: Any, labels: NDArray[Any] | None = None) -> Self:
        explanation = super().__new__(cls, score, ids, contributions)
        explanation.labels = labels
        return explanation

    def __str__(self) -> str:
        names = self.ids if self.labels is None else self.labels
        parts = [f"{part:8.4f}  {name}" for name, part in zip(names, self.contributions, strict=True)]
        return "\n".join([*parts, f"{self.score:8.4f}  together"])


class WALS(WALSPlots, Recommender, OnCluster, BaseEstimator):  # type: ignore[misc]
    """Weighted alternating least squares for implicit feedback; users x items.

    Minimises, over user factors u_i and item factors v_j of length `rank`,

        sum_obs w_ij (1 - u_i.v_j)^2  +  background * sum_unobserved (u_i.v_j)^2
            +  sum_i lam_i |u_i|^2  +  sum_j lam_j |v_j|^2

    where w_ij is the weight given for an observed cell (1 for plain pairs). Every half-step solves its side exactly.

    Parameters
    ----------
    rank : length of the factors.
    background : weight of every unobserved cell, >= 0.
    reg, reg_scaling : lam of a row is reg ("constant"), reg * n_i ("count"), or reg * (n_i + background * N)^nu for a
        number nu; n_i is the row's number of observed cells and N the size of the other side.
    loss : what an observed cell costs in place of (1 - z)^2: a name or object of `halfstep.losses`, for a target of 1.
    max_iter, tol : at most so many sweeps; stop when the objective falls by less than tol of itself.
    solver : "exact" (the cheaper of primal and dual, row by row), "cholesky", "dual", "cg" (stopped by residual) or
        "subspace" (blocks of columns in turn, for ranks of 256 and more).
    init : "scaled" N(0, 0.1/sqrt(rank)), "normal" N(0, 0.1), or "svd".
    n_init : restarts from other random starts; the fit with the lowest objective is kept.
    warm_start : continue from the present factors when `fit` is called again with the same users and items.
    dtype : "float32" or "float64".
    n_threads : None for all cores. The result has the same bits for any number.
    random_state : seed of the start.
    max_seconds : no sweep is begun after that long.
    callbacks : called with the record of every sweep; a true answer stops the fit.
    engine : where half-steps run; None is this machine, `halfstep.engine.spark.SparkEngine` a cluster.
    verbose : 0 quiet (a bar appears on long fits at a terminal), 1 bar, 2 a line for each sweep.

    Attributes
    ----------
    user_factors_, item_factors_ : (users, rank), (items, rank).
    user_ids_, item_ids_ : ids in the order of the factor rows; row numbers where the input had none.
    history_ : one dict for each sweep: objective, data, background, penalty, rmse, rmse_all,
        error_reduction (1 - rmse: predicting 0 everywhere has an rmse of 1 over observed cells), seconds, ...
    objective_, n_iter_, converged_ : the last objective, sweeps made, whether `tol` was reached.
    """

    _gram: NDArray[np.float64] | None

    def __init__(
        self,
        rank: int = 64,
        background: float = 0.05,
        reg: float = 0.01,
        reg_scaling: str | float = 1.0,
        *,
        loss: Any = "squared",
        max_iter: int = 15,
        tol: float = 1e-4,
        solver: str = "exact",
        init: str = "scaled",
        n_init: int = 1,
        warm_start: bool = False,
        dtype: str = "float32",
        n_threads: int | None = None,
        random_state: Any = None,
        max_seconds: float | None = None,
        callbacks: Sequence[Callback] = (),
        engine: Any = None,
        verbose: int = 0,
    ) -> None:
        self.rank = rank
        self.background = background
        self.reg = reg
        self.reg_scaling = reg_scaling
        self.loss = loss
        self.max_iter = max_iter
        self.tol = tol
        self.solver = solver
        self.init = init
        self.n_init = n_init
        self.warm_start = warm_start
        self.dtype = dtype
        self.n_threads = n_threads
        self.random_state = random_state
        self.max_seconds = max_seconds
        self.callbacks = callbacks
        self.engine = engine
        self.verbose = verbose

    # ------------------------------------------------------------------ fitting

    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        user: str | None = None,
        item: str | None = None,
        weight: str | None = None,
        keep_on_interrupt: bool = False,
    ) -> Self:
        """Fit to interactions.

        X : scipy sparse matrix or 2-D array of weights (users x items, 0 is unobserved), `Interactions`, or a frame
            (pandas, polars, pyarrow; with `SparkEngine` a Spark DataFrame) with a row for each pair. `user`, `item`,
            `weight` name its columns; they are detected from common names when left out, and weights are 1 without
            such a column.
        y : ignored, for scikit-learn.
        keep_on_interrupt : Ctrl-C (an interrupted cell of a notebook) ends the fit with the last finished half-step
            instead of an error, once there is a finished sweep; `interrupted_` says so.

        Repeated cells are summed; weights of zero count as unobserved.
        """
        self._check_parameters()
        engine = self.engine or LocalEngine(self.n_threads)
        columns = {"user": user, "item": item, "weight": weight, "dtype": self._number()}
        table = self._read_frame(engine, X, columns) if engine.distributed else read_table(X, **columns)
        problem = self._problem(table.observations)
        seed = seed_from(self.random_state)
        best: tuple[Outcome, Any] | None = None
        for restart in range(self.n_init):
            factors, order = self._start(engine, table, seed + restart)
            session = engine.open(problem, factors, Solver(self.solver))
            outcome = alternate(
                session,
                order=order,
                max_iter=self.max_iter,
                tol=self.tol,
                last=0,
                max_seconds=self.max_seconds,
                callbacks=self.callbacks,
                verbose=self.verbose,
                keep_on_interrupt=keep_on_interrupt,
                label="WALS",
            )
            if best is None or outcome.objective < best[0].objective:
                best = outcome, session
            if outcome.interrupted:
                break
        assert best is not None
        outcome, session = best
        if engine.distributed:
            self._set_on_cluster(engine, table, session, self._problem)
            self._set_outcome(outcome)
        else:
            self._set_fitted(table, outcome, session.factors)
        return self

    def partial_fit(
        self, X: Any, y: Any = None, *, user: str | None = None, item: str | None = None, weight: str | None = None
    ) -> Self:
        """Take in new interactions, new users and new items without a whole refit.

        The cells of X join those already known; a cell known before gets the new weight. Then the rows of the users and
        items that occur in X are solved exactly against everything else, twice, users last. All other rows stay as they
        are. New ids are appended, so old positions keep their meaning. For an input without ids (a sparse matrix), rows
        and columns continue the old numbering and X must be at least as large as what was fitted.
        """
        if not hasattr(self, "user_factors_"):
            return self.fit(X, user=user, item=item, weight=weight)
        self._check_parameters()
        new = read_table(X, user=user, item=item, weight=weight, dtype=self._number())
        table = merge(self._table(), new, self._number())
        rows = [
            _grown(f, n)
            for f, n in zip((self.user_factors_, self.item_factors_), table.observations.shape, strict=True)
        ]
        users = np.unique(table.users.positions(new.users.ids)[new.observations.counts > 0])
        items = np.unique(table.items.positions(new.items.ids)[new.observations.T.counts > 0])
        for side, touched in ((0, users), (1, items)) * 2 + ((0, users),):
            part = rows[side][touched]
            self._solve(table.observations, side, part, rows[1 - side], touched)
            rows[side][touched] = part
        outcome = Outcome(self.history_, self._objective(table.observations, rows), self.converged_)
        self._set_fitted(table, outcome, rows)
        return self

    def transform(self, X: Any) -> Any:
        """Factors of new users from their interactions, (rows, rank): the exact row problem against the fitted items.

        X : sparse matrix or array of weights over the fitted items, in their order. After a fit by `SparkEngine`: a
            Spark DataFrame like that of the fit; the answer is a DataFrame (user, factors).
        """
        check_is_fitted(self)
        if self._cluster is not None:
            return self._cluster.fold_in(X)
        X = _with_columns(X, len(self._items))
        if not _any(X):  # the best row without interactions is zero
            return np.zeros((X.shape[0], self.rank), self._number())
        return self._fold_in(read_table(X, dtype=self._number()).observations)

    def score(self, X: Any, y: Any = None) -> float:
        """Mean NDCG@10 of held-out cells X (same users and items as in `fit`), ranking what the users do not have."""
        check_is_fitted(self)
        held_out = read_table(_with_columns(X, len(self._items)), dtype=self._number()).observations.to_csr()
        if held_out.shape[0] != len(self._users):
            raise ValueError(f"X has {held_out.shape[0]} rows; this model was fitted on {len(self._users)} users.")
        rows = np.flatnonzero(np.diff(held_out.indptr))
        ranked = self.rank_items(self._seen_rows(rows), 10, rows)
        return float(np.mean(ndcg_at_k(ranked, held_out[rows], 10)))

    @staticmethod
    def estimate_memory(
        n_users: int,
        n_items: int,
        nnz: int,
        rank: int = 64,
        *,
        dtype: str = "float32",
        weighted: bool = True,
        copied: bool = False,
        loss: Any = "squared",
        n_init: int = 1,
        n_threads: int | None = None,
    ) -> MemoryEstimate:
        """Bytes that `fit` to a CSR matrix of `nnz` stored cells needs at its peak, beyond that matrix; itemised.

        weighted : the weights differ. Weights that are all the same are kept as one number.
        copied : the matrix is not a CSR of `dtype` with int32 indices, sorted and without repeated cells, so the fit
            makes one of it.
        Frames need more than this while their ids are numbered.
        """
        one_of("dtype", dtype, ("float32", "float64"))
        return fit_memory(
            n_users,
            n_items,
            nnz,
            rank,
            itemsize=np.dtype(dtype).itemsize,
            weighted=weighted,
            copied=copied,
            duals=losses.get(loss).is_plq and not losses.get(loss).is_quadratic,
            n_init=n_init,
            n_threads=thread_count(n_threads),
        )

    # ------------------------------------------------------------------ answers

    def recommend_for(
        self,
        items: Iterable[Any],
        n: int = 10,
        *,
        weights: Sequence[float] | None = None,
        how: str = "fold_in",
        candidates: Iterable[Any] | None = None,
        exclude: Iterable[Any] = (),
        diversity: float = 0.0,
    ) -> Ranking:
        """The best `n` items for somebody new who has `items` (ids, or labels where the model has them).

        how : "fold_in" solves the row problem exactly; "average" scores by the mean of the item vectors.
        """
        vector, seen = self._vector_for(items, weights, how)
        ranking = self._rank(vector, seen, n, candidates, exclude, diversity)
        return ranking.first()

    def explain(self, user: Any = None, item: Any = None, *, items: Iterable[Any] | None = None) -> Explanation:
        """What each item the user has contributes to the score of `item`, largest first; the parts sum to the score.

        For somebody new give `items` instead of `user`. With A the row's matrix, item k contributes
        w_k v_item' A^-1 v_k, since the user's vector is A^-1 sum_k w_k v_k. Squared loss only.
        """
        check_is_fitted(self)
        if not self._loss().is_quadratic:
            raise ValueError(f"explain needs loss='squared'; this model has loss={self.loss!r}.")
        if item is None or (user is None) == (items is None):
            raise ValueError("explain needs `item` and either `user` (an id) or `items` (what somebody new has).")
        cells = self._cells.take(self.user_positions([user])) if items is None else self._cells_for(items, None)
        target = int(self.item_positions([item])[0])
        x = self.item_factors_[cells.indices].astype(np.float64)
        w = np.broadcast_to(np.asarray(cells.weights, np.float64), (len(cells),))
        side = self._side(0, cells, None)
        lam = float(np.ravel(side.penalty)[0])
        A = lam * np.eye(self.rank) + self.background * self._item_gram() + (x.T * (w - self.background)) @ x
        parts = w * (x @ np.linalg.solve(A, self.item_factors_[target].astype(np.float64)))
        order = np.argsort(-np.abs(parts), kind="stable")
        given = cells.indices[order]
        labels = labels_of(self.item_labels_, given)
        return Explanation(float(parts.sum()), self._items.take(given), parts[order], labels)

    def rank_items(self, seen: Any, n: int, rows: NDArray[Any] | None = None) -> NDArray[np.int32]:
        """Item positions (len, n), best first, padded with -1, cells of `seen` left out.

        rows : training rows whose fitted factors are used; None folds the rows of `seen` in.
        """
        check_is_fitted(self)
        left = self.transform(seen) if rows is None else self.user_factors_[rows]
        places, _ = top_k(left, self.item_factors_, min(n, len(self._items)), seen, self.n_threads)
        return np.pad(places, ((0, 0), (0, n - places.shape[1])), constant_values=-1)

    # ------------------------------------------------------------------ files

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model, its ids and its interactions as one safetensors file; `halfstep.load` reads it back."""
        check_is_fitted(self)
        params = self._saved_params() | {"loss": self._loss()}
        arrays = {
            "user_factors": self.user_factors_,
            "item_factors": self.item_factors_,
            **to_arrays(self._table(), self._number()),
        }
        persistence.save(path, "WALS", params, arrays, self._meta(), {"user": self._users, "item": self._items})

    def _saved_params(self) -> dict[str, Any]:
        """Parameters that a file can keep, the loss as plain values."""
        params = {
            k: v for k, v in self.get_params(deep=False).items() if k not in ("callbacks", "engine", "random_state")
        }
        if isinstance(self.random_state, (int, np.integer)):
            params["random_state"] = int(self.random_state)
        return params | {"loss": self._loss().to_dict()}

    def _meta(self) -> dict[str, Any]:
        return {"history": self.history_, "objective": self.objective_, "converged": self.converged_}

    @classmethod
    def _from_saved(cls, saved: persistence.Saved) -> WALS:
        model = cls(**saved.params)
        table = from_saved(saved)
        factors = [
            saved.array("user_factors", (len(table.users), model.rank)),
            saved.array("item_factors", (len(table.items), model.rank)),
        ]
        outcome = Outcome(saved.meta["history"], saved.meta["objective"], saved.meta["converged"])
        model._set_fitted(table, outcome, factors)
        return model

    # ------------------------------------------------------------------ the composition

    def _check_parameters(self) -> None:
        for name in ("rank", "max_iter", "n_init"):
            check_number(name, getattr(self, name), at_least=1, whole=True)
        for name in ("background", "reg", "tol"):
            check_number(name, getattr(self, name), at_least=0)
        if not isinstance(self.reg_scaling, str):
            check_number("reg_scaling", self.reg_scaling)
        if self.max_seconds is not None:
            check_number("max_seconds", self.max_seconds, at_least=0)
        one_of("solver", self.solver, METHODS)
        one_of("init", self.init, INITS)
        one_of("dtype", self.dtype, ("float32", "float64"))
        thread_count(self.n_threads)

    def _number(self) -> Any:
        return np.dtype(self.dtype).type

    def _loss(self) -> losses.Loss:
        return losses.get(self.loss)

    def _side(self, side: int, cells: Observations, rows: NDArray[Any] | None) -> Side:
        rule = partial(
            scaled_penalty, self.reg, self.reg_scaling, background=float(self.background), n_other=cells.shape[1]
        )
        return Side(cells.per_row(rule) if rows is None else rule(cells.counts[rows]))

    def _problem(self, cells: Observations) -> Problem:
        sides = (self._side(0, cells, None), self._side(1, cells.T, None))
        return Problem(cells, sides, self._loss(), float(self.background))

    def _start(self, engine: Any, table: Table, seed: int) -> tuple[Any, tuple[int, int]]:
        if self.warm_start and engine.distributed:
            raise ValueError("warm_start=True is not for SparkEngine; it has checkpoint= and resume=True.")
        if self.warm_start and hasattr(self, "user_factors_"):
            if self._users != table.users or self._items != table.items or self.user_factors_.shape[1] != self.rank:
                raise ValueError(
                    "warm_start=True needs the users, items and rank of the previous fit; use partial_fit."
                )
            factors = [self.user_factors_.astype(self._number()), self.item_factors_.astype(self._number())]
            return factors, (1, 0)
        start: tuple[Any, tuple[int, int]] = engine.start(
            table.observations, self.rank, self.init, seed, self._number()
        )
        return start

    def _solve(
        self, cells: Observations, side: int, own: NDArray[Any], other: NDArray[Any], rows: NDArray[Any]
    ) -> None:
        """Some rows of one side, exactly, in place."""
        grouped = cells if side == 0 else cells.T
        spec = self._side(side, grouped, rows)
        problem = Problem(cells, (spec, spec), self._loss(), float(self.background))
        threads = thread_count(self.n_threads)
        gram = gram_matrix(other, threads) if self.background > 0 else None
        taken = grouped.take(rows)
        solve_rows(problem, side, own, other, Solver("exact"), gram=gram, n_threads=threads, cells=taken)

    def _fold_in(self, cells: Observations) -> NDArray[Any]:
        own = np.zeros((cells.shape[0], self.rank), self._number())
        spec = self._side(0, cells, None)
        problem = Problem(cells, (spec, spec), self._loss(), float(self.background))
        gram = self._item_gram() if self.background > 0 else None
        items = np.ascontiguousarray(self.item_factors_, self._number())
        solve_rows(
            problem, 0, own, items, Solver("exact"), gram=gram, n_threads=thread_count(self.n_threads), cells=cells
        )
        return own

    def _item_gram(self) -> NDArray[np.float64]:
        if self._gram is None:  # computed when first needed
            self._gram = gram_matrix(self.item_factors_, thread_count(self.n_threads))
        return self._gram

    def _cells_for(self, items: Iterable[Any], weights: Sequence[float] | None) -> Observations:
        """One new row that has `items`."""
        places = self.item_positions(items)
        if not len(places):
            raise ValueError("items is empty; give at least one item that the new user has.")
        values = np.ones(len(places), self._number()) if weights is None else np.asarray(weights, self._number())
        if values.shape != places.shape or not np.isfinite(values).all() or (values < 0).any():
            raise ValueError(f"weights must be {len(places)} finite numbers >= 0, one for each item.")
        zeros = np.zeros(len(places), np.int64)
        cells = Observations.from_cells(
            zeros, places, (1, len(self._items)), weights=values, duplicates="sum", dtype=self._number()
        )
        known = Observations.from_weights(cells.to_csr(), self._number())  # a weight of zero counts as unobserved
        if not len(known):
            raise ValueError("every weight is zero; give at least one item a weight above 0.")
        return known

    def _vector_for(self, items: Iterable[Any], weights: Sequence[float] | None, how: str) -> tuple[NDArray[Any], Any]:
        check_is_fitted(self)
        one_of("how", how, ("fold_in", "average"))
        cells = self._cells_for(items, weights)
        if how == "fold_in":
            return self._fold_in(cells), cells.to_csr()
        share = np.broadcast_to(np.asarray(cells.weights, np.float64), (len(cells),))
        mean = (share / share.sum()) @ self.item_factors_[cells.indices]
        return np.ascontiguousarray(mean[None, :], self._number()), cells.to_csr()

    def _table(self) -> Table:
        return Table(self._cells, self._users, self._items, self.user_labels_, self.item_labels_)

    def _objective(self, cells: Observations, rows: list[NDArray[Any]]) -> float:
        session = LocalEngine(self.n_threads).open(self._problem(cells), rows, Solver("exact"))
        return measure(session, session.evaluate())["objective"]

    def _set_fitted(self, table: Table, outcome: Outcome, factors: list[NDArray[Any]]) -> None:
        self.user_factors_, self.item_factors_ = factors
        self._cluster = None
        self._cells = table.observations
        self._users, self._items = table.users, table.items
        self.user_labels_, self.item_labels_ = table.user_labels, table.item_labels
        self._gram = None
        self.n_features_in_ = len(self._items)
        self._set_outcome(outcome)

    def _set_outcome(self, outcome: Outcome) -> None:
        self.history_ = [record | {"error_reduction": 1.0 - record["rmse"]} for record in outcome.history]
        self.objective_ = outcome.objective
        self.n_iter_ = len(outcome.history)
        self.converged_ = outcome.converged
        self.interrupted_ = outcome.interrupted


def _any(X: Any) -> bool:
    return bool(X.count_nonzero()) if sp.issparse(X) else bool(np.any(X))


def _with_columns(X: Any, n: int) -> Any:
    shape = np.shape(X)
    if len(shape) != 2 or shape[1] != n:
        raise ValueError(f"X has shape {shape}; it must have {n} columns, one for each fitted item. Rows are users.")
    return X


def _grown(factors: NDArray[Any], n: int) -> NDArray[Any]:
    """Rows of zeros for new ids behind the old rows."""
    return np.concatenate([factors, np.zeros((n - len(factors), factors.shape[1]), factors.dtype)])


persistence.register_codec(losses.Loss, "loss", lambda loss: loss.to_dict(), losses.get)
