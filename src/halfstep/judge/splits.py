"""Which cells a model may see, and which it must find. Knows matrices and times; no features, no model, no metric.

A cell is a stored positive value of a users x items matrix; stored zeros are no cells. Every split puts each
cell into exactly one place: training, the fold-in part of a held-out user, or the targets. Only `time_split`
drops cells: the targets of users without a past, which it counts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse
from sklearn.utils import check_random_state

from halfstep.metrics import checked_cells


@dataclass(frozen=True)
class Split:
    """What a model is fitted on, whom it ranks for, and what it should find.

    train      CSR (training users, n_items)
    seen       CSR (ranked users, n_items); these cells are known of a ranked user and never recommended
    relevant   CSR (ranked users, n_items); the held-out cells, at least one in each row
    rows       positions of the ranked users in `train`, or None: they are new and `seen` is to be folded in
    users      positions of the ranked users in the matrix that was split
    left_out   number of users that could not be ranked for, because too few of their cells exist
    protocol   name of the function that made the split
    trained    positions of the training users in the matrix that was split; None for all of them
    items      positions of the ranked items in it, where these are new: `seen` and `relevant` are then over them,
               and `train` over the others; None where the items of `train` are ranked
    """

    train: Any
    seen: Any
    relevant: Any
    rows: npt.NDArray[np.intp] | None
    users: npt.NDArray[np.intp]
    left_out: int
    protocol: str
    trained: npt.NDArray[np.intp] | None = None
    items: npt.NDArray[np.intp] | None = None


def leave_k_out(matrix: Any, k: int = 1, random_state: Any = None, *, timestamps: npt.ArrayLike | None = None) -> Split:
    """Hold `k` cells out of every row that has more than k; the other rows are training only.

    The k cells are drawn at random, or with `timestamps` (one for each stored cell, see `time_split`) they
    are the latest, equal times in random order.
    """
    cells = _cells_to_split(matrix)
    if isinstance(k, bool) or not isinstance(k, int | np.integer) or k < 1:
        raise ValueError(f"k={k!r}; expected a whole number of at least 1: how many cells of each row to hold out.")
    n_cells = np.diff(cells.indptr)
    users = np.flatnonzero(n_cells > k)
    if not len(users):
        raise ValueError(
            f"k={k} but no row of matrix has more than {n_cells.max(initial=0)} cells; hold fewer cells out."
        )
    time = np.zeros(cells.nnz) if timestamps is None else _cell_times(matrix, cells, timestamps)
    keep = np.where(n_cells > k, n_cells - k, n_cells)
    train, held_out = _divide(cells, _place_in_row(cells, time, random_state) < keep[_row_of(cells)])
    return Split(train, train[users], held_out[users], users, users, cells.shape[0] - len(users), "leave_k_out")


def strong_generalisation(
    matrix: Any,
    holdout_users: float | npt.ArrayLike = 0.2,
    fold_in: float = 0.8,
    random_state: Any = None,
) -> Split:
    """Train on some users, rank for others: `fold_in` of a held-out user's cells are shown, the rest hidden.

    `holdout_users` is a number of users, a share of the users (a float below 1), or an array of row
    positions. Numbers and shares are drawn among the users with at least two cells; others always train. Of a
    held-out user's n cells `round(fold_in * n)` are shown, but at least one is shown and at least one hidden.
    """
    if not 0 < fold_in < 1:
        raise ValueError(f"fold_in={fold_in!r}; expected a share between 0 and 1, such as 0.8.")
    random = check_random_state(random_state)
    train, theirs, users, trained = _without_rows(matrix, "holdout_users", holdout_users, 2, random)
    n_cells = np.diff(theirs.indptr)
    shown = np.clip(np.rint(fold_in * n_cells), 1, n_cells - 1)
    seen, relevant = _shown(theirs, shown, random)
    return Split(train, seen, relevant, None, users, 0, "strong_generalisation", trained)


def few(matrix: Any, given: int = 3, holdout_users: float | npt.ArrayLike = 0.2, random_state: Any = None) -> Split:
    """Train on some users, rank for others of whom `given` cells are shown, drawn at random; the rest is hidden.

    `holdout_users` as in `strong_generalisation`, among the users with more than `given` cells.
    """
    if isinstance(given, bool) or not isinstance(given, int | np.integer) or given < 1:
        raise ValueError(f"given={given!r}; expected a whole number of at least 1: how many cells are shown.")
    random = check_random_state(random_state)
    train, theirs, users, trained = _without_rows(matrix, "holdout_users", holdout_users, given + 1, random)
    seen, relevant = _shown(theirs, np.full(len(users), given), random)
    return Split(train, seen, relevant, None, users, 0, "few", trained)


def cold_users(matrix: Any, holdout_users: float | npt.ArrayLike = 0.2, random_state: Any = None) -> Split:
    """Whole rows are held out: nothing is shown of these users, all they have is to be found, from features alone.

    `holdout_users` as in `strong_generalisation`, among the users with a cell.
    """
    random = check_random_state(random_state)
    train, theirs, users, trained = _without_rows(matrix, "holdout_users", holdout_users, 1, random)
    return Split(train, sparse.csr_matrix(theirs.shape), theirs, None, users, 0, "cold_users", trained)


def cold_items(matrix: Any, holdout_items: float | npt.ArrayLike = 0.2, random_state: Any = None) -> Split:
    """Whole columns are held out: users rank these items alone, among themselves, from the features of the items.

    `holdout_items` is a number, a share below 1, or positions of columns, as `holdout_users` is for rows. Ranked for
    are the users with a cell in both parts; the others are counted in `left_out`.
    """
    random = check_random_state(random_state)
    turned = sparse.csr_matrix(_cells_to_split(matrix).T)
    kept, theirs, items, _ = _without_rows(turned, "holdout_items", holdout_items, 1, random)
    train, hidden = sparse.csr_matrix(kept.T), sparse.csr_matrix(theirs.T)
    users = np.flatnonzero((np.diff(train.indptr) > 0) & (np.diff(hidden.indptr) > 0))
    if not len(users):
        raise ValueError("holdout_items leaves no user with cells in both parts; hold other items out.")
    relevant = hidden[users]
    empty = sparse.csr_matrix(relevant.shape)
    return Split(train, empty, relevant, users, users, train.shape[0] - len(users), "cold_items", None, items)


def time_split(matrix: Any, timestamps: npt.ArrayLike, *, share: float = 0.2, cutoff: Any = None) -> Split:
    """Train on the past, find the future: cells later than `cutoff` are targets, all others train.

    `timestamps` holds one number or datetime for each stored cell of `matrix`, in the order of
    `matrix.tocsr().data`, or is a sparse matrix with the same stored cells. Without `cutoff` the latest
    `share` of all cells are targets; cells of the same time as the last training cell train too.

    Users whose first cell lies after the cutoff have no past to rank from. They are counted in `left_out`,
    and their targets are dropped. Targets on items without a past stay: no model finds them, and that is
    part of the truth.
    """
    cells = _cells_to_split(matrix)
    time = _cell_times(matrix, cells, timestamps)
    if cutoff is None:
        if not 0 < share < 1:
            raise ValueError(f"share={share!r}; expected a share between 0 and 1 of the cells, such as 0.2.")
        n_train = max(1, round((1 - share) * cells.nnz))
        cutoff = np.sort(time)[n_train - 1]
    else:
        cutoff = _same_kind(cutoff, time)
    train, later = _divide(cells, time <= cutoff)
    has_past, has_future = np.diff(train.indptr) > 0, np.diff(later.indptr) > 0
    users = np.flatnonzero(has_past & has_future)
    if not len(users):
        raise ValueError(
            f"cutoff={cutoff!r} leaves no user with cells both before and after it (times go from "
            f"{time.min()} to {time.max()}); choose another cutoff or share."
        )
    return Split(train, train[users], later[users], users, users, cells.shape[0] - len(users), "time_split")


def _cells_to_split(matrix: Any) -> Any:
    cells = checked_cells("matrix", matrix)
    if not cells.nnz:
        raise ValueError(f"matrix of shape {cells.shape} has no positive cell; there is nothing to split.")
    return cells


def _without_rows(
    matrix: Any, argument: str, wanted: float | npt.ArrayLike, least: int, random: Any
) -> tuple[Any, Any, npt.NDArray[np.intp], npt.NDArray[np.intp]]:
    """The rows that train, those held out, and the positions of the latter and of the former."""
    cells = _cells_to_split(matrix)
    held_out = _held_out(argument, wanted, np.diff(cells.indptr), least, random)
    trained = np.setdiff1d(np.arange(cells.shape[0]), held_out)
    if not cells[trained].nnz:
        raise ValueError(
            f"{argument} leaves no cell to train on ({len(held_out)} of {cells.shape[0]} are held out); hold fewer out."
        )
    return cells[trained], cells[held_out], held_out, trained


def _shown(theirs: Any, shown: npt.NDArray[Any], random: Any) -> tuple[Any, Any]:
    """So many cells of each row, drawn at random, and the others."""
    place = _place_in_row(theirs, np.zeros(theirs.nnz), random)
    return _divide(theirs, place < shown[_row_of(theirs)])


def _held_out(
    argument: str, wanted: float | npt.ArrayLike, n_cells: npt.NDArray[Any], least: int, random: Any
) -> npt.NDArray[np.intp]:
    """Sorted positions of what is held out, each with at least so many cells."""
    what, each = argument.removeprefix("holdout_"), "row" if argument == "holdout_users" else "column"
    able = np.flatnonzero(n_cells >= least)
    cells = {1: "a cell", 2: "at least two cells"}.get(least, f"at least {least} cells")
    if np.ndim(wanted):
        chosen = np.unique(np.asarray(wanted))
        if not len(chosen):
            raise ValueError(f"{argument} is empty; name at least one {each} to hold out.")
        if not np.issubdtype(chosen.dtype, np.integer) or chosen.min() < 0 or chosen.max() >= len(n_cells):
            raise ValueError(
                f"{argument} must be positions of {each}s from 0 to {len(n_cells) - 1}; "
                f"got {chosen.dtype} values from {chosen.min()} to {chosen.max()}."
            )
        if not np.isin(chosen, able).all():
            fewer = {1: "no cell", 2: "fewer than two cells"}.get(least, f"fewer than {least} cells")
            raise ValueError(
                f"{argument} names {each} {np.setdiff1d(chosen, able)[0]}, which has {fewer}; "
                f"{cells} are needed, to show and to hide. Leave such {each}s out."
            )
        return chosen.astype(np.intp)
    number = float(wanted)  # type: ignore[arg-type]
    is_share = 0 < number < 1
    count = round(number * len(n_cells)) if is_share else round(number)
    if (count != number and not is_share) or not 1 <= count <= len(able):
        raise ValueError(
            f"{argument}={wanted!r}; expected a share below 1 or a number from 1 to {len(able)}, "
            f"the number of {what} with {cells}."
        )
    return np.sort(random.choice(able, count, replace=False))


def _cell_times(matrix: Any, cells: Any, timestamps: Any) -> npt.NDArray[Any]:
    """One number for each cell of the canonical `cells`, from times in the order of the cells of `matrix`."""
    given = sparse.csr_matrix(matrix)
    if sparse.issparse(timestamps):
        stamps = sparse.csr_matrix(timestamps)
        same = stamps.shape == given.shape and stamps.nnz == given.nnz
        if not same or (stamps.indptr != given.indptr).any() or (stamps.indices != given.indices).any():
            raise ValueError("timestamps stores other cells than matrix; give it exactly the same ones.")
        timestamps = stamps.data
    time = np.asarray(timestamps)
    if time.shape != (given.nnz,):
        raise ValueError(
            f"timestamps has shape {time.shape}; expected ({given.nnz},), one for each stored cell of matrix "
            "in the order of matrix.tocsr().data."
        )
    if not (np.issubdtype(time.dtype, np.number) or np.issubdtype(time.dtype, np.datetime64)):
        raise ValueError(f"timestamps holds {time.dtype}; expected numbers or datetimes. Convert them first.")
    missing = np.isnat(time) if np.issubdtype(time.dtype, np.datetime64) else ~np.isfinite(time)
    if missing.any():
        raise ValueError(f"timestamps has {int(missing.sum())} missing values; drop these cells first.")
    if cells.nnz != np.count_nonzero(given.data):
        raise ValueError("matrix stores a cell twice, so its timestamps are ambiguous; keep one entry for each cell.")
    stored = np.flatnonzero(given.data)
    return np.asarray(time[stored][np.lexsort((given.indices[stored], _row_of(given)[stored]))])


def _same_kind(cutoff: Any, time: npt.NDArray[Any]) -> Any:
    """`cutoff` as a datetime if the times are, else as a number."""
    try:
        return np.datetime64(cutoff) if np.issubdtype(time.dtype, np.datetime64) else float(cutoff)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"cutoff={cutoff!r} cannot be compared with timestamps of {time.dtype}; give the same kind."
        ) from error


def _row_of(cells: Any) -> npt.NDArray[np.intp]:
    return np.repeat(np.arange(cells.shape[0]), np.diff(cells.indptr))


def _place_in_row(cells: Any, key: npt.NDArray[Any], random_state: Any) -> npt.NDArray[np.intp]:
    """For each cell its place 0, 1, ... in its row when the row is sorted by `key`, equal keys shuffled."""
    shuffled = check_random_state(random_state).permutation(cells.nnz)
    order = np.lexsort((shuffled, key, _row_of(cells)))
    place = np.empty(cells.nnz, dtype=np.intp)
    place[order] = np.arange(cells.nnz) - cells.indptr[_row_of(cells)]
    return place


def _divide(cells: Any, first: npt.NDArray[np.bool_]) -> tuple[Any, Any]:
    """Two CSR matrices of the shape of `cells`: the cells where `first` holds, and the others."""
    row = _row_of(cells)

    def part(chosen: npt.NDArray[np.bool_]) -> Any:
        where = (row[chosen], cells.indices[chosen])
        return sparse.csr_matrix((cells.data[chosen], where), shape=cells.shape)

    return part(first), part(~first)
