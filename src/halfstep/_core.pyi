# Written by tools/stub.py from the compiled core: run `make format`, do not edit.
# mypy takes arrays of float32 and of float64 for overlapping types; the core does not.
# mypy: disable-error-code="overload-overlap"
import enum
from collections.abc import Sequence
from typing import Annotated, overload

import numpy
from numpy.typing import NDArray

class Method(enum.Enum):
    """How a row is finished; `Solver` says what each does."""

    exact = 0

    cholesky = 1

    dual = 2

    cg = 3

    subspace = 4

    draw = 5

    auto = 6

class LossKind(enum.Enum):
    """What the core knows of a loss."""

    squared = 0

    plq = 1

    logistic = 2

    bernoulli = 3

    poisson = 4

    ordinal = 5

class LossForm(enum.Enum):
    """What a piecewise loss is a function of."""

    residual = 0

    margin = 1

class HalfStep32:
    """One side to solve against another. Filled once, then used."""

    def cells(
        self,
        indptr: Annotated[NDArray[numpy.int64], dict(order="C", device="cpu", writable=False)],
        indices: Annotated[NDArray[numpy.int32], dict(order="C", device="cpu", writable=False)],
        targets: Annotated[NDArray[numpy.float32], dict(order="C", device="cpu", writable=False)] | float,
        weights: Annotated[NDArray[numpy.float32], dict(order="C", device="cpu", writable=False)] | float,
        offsets: Annotated[NDArray[numpy.float32], dict(order="C", device="cpu", writable=False)] | None = None,
    ) -> None:
        """The cells of every row, listed."""

    def table(
        self,
        targets: Annotated[NDArray[numpy.float32], dict(device="cpu", writable=False)],
        weights: Annotated[NDArray[numpy.float32], dict(device="cpu", writable=False)] | float,
    ) -> None:
        """A cell for every pair of rows; a target that is NaN is none."""

    def row_weights(
        self,
        own: Annotated[NDArray[numpy.float32], dict(order="C", device="cpu", writable=False)] | None = None,
        other: Annotated[NDArray[numpy.float32], dict(order="C", device="cpu", writable=False)] | None = None,
    ) -> None:
        """
        Factors of the weights of cells, by their row of `own` and by their row of `other`.
        """

    def loss(self, kind: LossKind, form: LossForm) -> None:
        """A loss that the core has built in; squared unless told."""

    def pieces(
        self,
        form: LossForm,
        breaks: Annotated[NDArray[numpy.float64], dict(order="C", device="cpu", writable=False)],
        coefficients: Annotated[NDArray[numpy.float64], dict(order="C", device="cpu", writable=False)],
    ) -> None:
        """A loss that is quadratic between breaks."""

    def ordinal(self, edges: Annotated[NDArray[numpy.float64], dict(order="C", device="cpu", writable=False)]) -> None:
        """
        Levels 0, 1, ... of a latent score with logistic noise, each between two edges; the outer ones infinite.
        """

    def columns(self, start: int, stop: int) -> None:
        """The range of columns that is solved; the others are data."""

    def nonnegative(self, start: int, stop: int) -> None:
        """The range of columns, of the whole row, kept >= 0."""

    def penalty(
        self, lam: Annotated[NDArray[numpy.float32], dict(order="C", device="cpu", writable=False)] | float
    ) -> None:
        """How strongly rows are held."""

    def prior(self, mu: Annotated[NDArray[numpy.float32], dict(order="C", device="cpu", writable=False)]) -> None:
        """Where rows are held, over the free columns; zero unless told."""

    def background(
        self,
        w0: float,
        gram: Annotated[NDArray[numpy.float32], dict(order="C", device="cpu", writable=False)] | None = None,
        spectrum: Annotated[NDArray[numpy.float32], dict(order="C", device="cpu", writable=False)] | None = None,
    ) -> None:
        """Weight of unobserved cells; `quadratics` needs no gram."""

    def background_factors(
        self,
        own: Annotated[NDArray[numpy.float32], dict(order="C", device="cpu", writable=False)] | None = None,
        other: Annotated[NDArray[numpy.float32], dict(order="C", device="cpu", writable=False)] | None = None,
    ) -> None:
        """
        Factors of the weight of unobserved cells, by their row of `own` and by their row of `other`.
        """

    def duals(self, values: Annotated[NDArray[numpy.float32], dict(order="C", device="cpu")]) -> None:
        """Dual variables, kept between sweeps."""

    def label(
        self,
        vector: Annotated[NDArray[numpy.float32], dict(order="C", device="cpu", writable=False)],
        targets: Annotated[NDArray[numpy.float32], dict(order="C", device="cpu", writable=False)],
        weights: Annotated[NDArray[numpy.float32], dict(order="C", device="cpu", writable=False)],
    ) -> None:
        """One logistic cell of each row beside its squared ones."""

    def method(self, method: Method, tolerance: float, max_steps: int, block: int) -> None:
        """How rows are finished."""

    def noise(self, seed: int, sweep: int, side: int, first_row: int = 0) -> None:
        """
        Which normals the rows get where they are drawn; row i of `own` is number first_row + i.
        """

    def solve(self, evaluate: bool, n_threads: int) -> dict[str, float]:
        """Solve every row of `own` in place; returns the sums over rows."""

    def evaluate(self, n_threads: int) -> dict[str, float]:
        """What the rows of `own` cost on their cells; solves nothing."""

    def quadratics(self, n_threads: int) -> Annotated[NDArray[numpy.float64], dict(order="C", device="cpu")]:
        """
        What the cells of each row add to its quadratic, (rows, f + 1, f): lower triangle, then linear terms.
        """

    def finish(
        self,
        quadratics: Annotated[NDArray[numpy.float64], dict(order="C", device="cpu", writable=False)],
        n_threads: int,
    ) -> dict[str, float]:
        """
        Solve every row of `own` in place from such quadratics, added up; the cells are not looked at.
        """

@overload
def half_step(
    own: Annotated[NDArray[numpy.float32], dict(order="C", device="cpu")],
    other: Annotated[NDArray[numpy.float32], dict(order="C", device="cpu", writable=False)],
) -> HalfStep32: ...
@overload
def half_step(
    own: Annotated[NDArray[numpy.float64], dict(order="C", device="cpu")],
    other: Annotated[NDArray[numpy.float64], dict(order="C", device="cpu", writable=False)],
) -> HalfStep64:
    """A half-step in the precision of its two sides."""

class HalfStep64:
    """One side to solve against another. Filled once, then used."""

    def cells(
        self,
        indptr: Annotated[NDArray[numpy.int64], dict(order="C", device="cpu", writable=False)],
        indices: Annotated[NDArray[numpy.int32], dict(order="C", device="cpu", writable=False)],
        targets: Annotated[NDArray[numpy.float64], dict(order="C", device="cpu", writable=False)] | float,
        weights: Annotated[NDArray[numpy.float64], dict(order="C", device="cpu", writable=False)] | float,
        offsets: Annotated[NDArray[numpy.float64], dict(order="C", device="cpu", writable=False)] | None = None,
    ) -> None:
        """The cells of every row, listed."""

    def table(
        self,
        targets: Annotated[NDArray[numpy.float64], dict(device="cpu", writable=False)],
        weights: Annotated[NDArray[numpy.float64], dict(device="cpu", writable=False)] | float,
    ) -> None:
        """A cell for every pair of rows; a target that is NaN is none."""

    def row_weights(
        self,
        own: Annotated[NDArray[numpy.float64], dict(order="C", device="cpu", writable=False)] | None = None,
        other: Annotated[NDArray[numpy.float64], dict(order="C", device="cpu", writable=False)] | None = None,
    ) -> None:
        """
        Factors of the weights of cells, by their row of `own` and by their row of `other`.
        """

    def loss(self, kind: LossKind, form: LossForm) -> None:
        """A loss that the core has built in; squared unless told."""

    def pieces(
        self,
        form: LossForm,
        breaks: Annotated[NDArray[numpy.float64], dict(order="C", device="cpu", writable=False)],
        coefficients: Annotated[NDArray[numpy.float64], dict(order="C", device="cpu", writable=False)],
    ) -> None:
        """A loss that is quadratic between breaks."""

    def ordinal(self, edges: Annotated[NDArray[numpy.float64], dict(order="C", device="cpu", writable=False)]) -> None:
        """
        Levels 0, 1, ... of a latent score with logistic noise, each between two edges; the outer ones infinite.
        """

    def columns(self, start: int, stop: int) -> None:
        """The range of columns that is solved; the others are data."""

    def nonnegative(self, start: int, stop: int) -> None:
        """The range of columns, of the whole row, kept >= 0."""

    def penalty(
        self, lam: Annotated[NDArray[numpy.float64], dict(order="C", device="cpu", writable=False)] | float
    ) -> None:
        """How strongly rows are held."""

    def prior(self, mu: Annotated[NDArray[numpy.float64], dict(order="C", device="cpu", writable=False)]) -> None:
        """Where rows are held, over the free columns; zero unless told."""

    def background(
        self,
        w0: float,
        gram: Annotated[NDArray[numpy.float64], dict(order="C", device="cpu", writable=False)] | None = None,
        spectrum: Annotated[NDArray[numpy.float64], dict(order="C", device="cpu", writable=False)] | None = None,
    ) -> None:
        """Weight of unobserved cells; `quadratics` needs no gram."""

    def background_factors(
        self,
        own: Annotated[NDArray[numpy.float64], dict(order="C", device="cpu", writable=False)] | None = None,
        other: Annotated[NDArray[numpy.float64], dict(order="C", device="cpu", writable=False)] | None = None,
    ) -> None:
        """
        Factors of the weight of unobserved cells, by their row of `own` and by their row of `other`.
        """

    def duals(self, values: Annotated[NDArray[numpy.float64], dict(order="C", device="cpu")]) -> None:
        """Dual variables, kept between sweeps."""

    def label(
        self,
        vector: Annotated[NDArray[numpy.float64], dict(order="C", device="cpu", writable=False)],
        targets: Annotated[NDArray[numpy.float64], dict(order="C", device="cpu", writable=False)],
        weights: Annotated[NDArray[numpy.float64], dict(order="C", device="cpu", writable=False)],
    ) -> None:
        """One logistic cell of each row beside its squared ones."""

    def method(self, method: Method, tolerance: float, max_steps: int, block: int) -> None:
        """How rows are finished."""

    def noise(self, seed: int, sweep: int, side: int, first_row: int = 0) -> None:
        """
        Which normals the rows get where they are drawn; row i of `own` is number first_row + i.
        """

    def solve(self, evaluate: bool, n_threads: int) -> dict[str, float]:
        """Solve every row of `own` in place; returns the sums over rows."""

    def evaluate(self, n_threads: int) -> dict[str, float]:
        """What the rows of `own` cost on their cells; solves nothing."""

    def quadratics(self, n_threads: int) -> Annotated[NDArray[numpy.float64], dict(order="C", device="cpu")]:
        """
        What the cells of each row add to its quadratic, (rows, f + 1, f): lower triangle, then linear terms.
        """

    def finish(
        self,
        quadratics: Annotated[NDArray[numpy.float64], dict(order="C", device="cpu", writable=False)],
        n_threads: int,
    ) -> dict[str, float]:
        """
        Solve every row of `own` in place from such quadratics, added up; the cells are not looked at.
        """

@overload
def gram(
    x: Annotated[NDArray[numpy.float32], dict(order="C", device="cpu", writable=False)], n_threads: int
) -> Annotated[NDArray[numpy.float64], dict(order="C", device="cpu")]: ...
@overload
def gram(
    x: Annotated[NDArray[numpy.float64], dict(order="C", device="cpu", writable=False)], n_threads: int
) -> Annotated[NDArray[numpy.float64], dict(order="C", device="cpu")]:
    """x'x in float64, the same bits for any number of threads."""

@overload
def rotate(
    x: Annotated[NDArray[numpy.float32], dict(order="C", device="cpu")],
    basis: Annotated[NDArray[numpy.float32], dict(order="C", device="cpu", writable=False)],
    start: int,
    n_threads: int,
) -> None: ...
@overload
def rotate(
    x: Annotated[NDArray[numpy.float64], dict(order="C", device="cpu")],
    basis: Annotated[NDArray[numpy.float64], dict(order="C", device="cpu", writable=False)],
    start: int,
    n_threads: int,
) -> None:
    """x[:, start:start+f] @= basis, in place."""

@overload
def top_k(
    left: Annotated[NDArray[numpy.float32], dict(order="C", device="cpu", writable=False)],
    right: Annotated[NDArray[numpy.float32], dict(order="C", device="cpu", writable=False)],
    k: int,
    rows: Annotated[NDArray[numpy.int64], dict(order="C", device="cpu", writable=False)] | None = None,
    seen_indptr: Annotated[NDArray[numpy.int64], dict(order="C", device="cpu", writable=False)] | None = None,
    seen_indices: Annotated[NDArray[numpy.int32], dict(order="C", device="cpu", writable=False)] | None = None,
    *,
    n_threads: int,
) -> tuple[
    Annotated[NDArray[numpy.int32], dict(order="C", device="cpu")],
    Annotated[NDArray[numpy.float32], dict(order="C", device="cpu")],
]: ...
@overload
def top_k(
    left: Annotated[NDArray[numpy.float64], dict(order="C", device="cpu", writable=False)],
    right: Annotated[NDArray[numpy.float64], dict(order="C", device="cpu", writable=False)],
    k: int,
    rows: Annotated[NDArray[numpy.int64], dict(order="C", device="cpu", writable=False)] | None = None,
    seen_indptr: Annotated[NDArray[numpy.int64], dict(order="C", device="cpu", writable=False)] | None = None,
    seen_indices: Annotated[NDArray[numpy.int32], dict(order="C", device="cpu", writable=False)] | None = None,
    *,
    n_threads: int,
) -> tuple[
    Annotated[NDArray[numpy.int32], dict(order="C", device="cpu")],
    Annotated[NDArray[numpy.float64], dict(order="C", device="cpu")],
]:
    """
    Indices and scores of the best k rows of `right` for rows of `left`. Sorted `seen` indices are left out.

    Short lists end in -1 and NaN.
    """

@overload
def pair_scores(
    left: Annotated[NDArray[numpy.float32], dict(order="C", device="cpu", writable=False)],
    right: Annotated[NDArray[numpy.float32], dict(order="C", device="cpu", writable=False)],
    rows: Annotated[NDArray[numpy.int64], dict(order="C", device="cpu", writable=False)],
    columns: Annotated[NDArray[numpy.int64], dict(order="C", device="cpu", writable=False)],
    n_threads: int,
) -> Annotated[NDArray[numpy.float32], dict(order="C", device="cpu")]: ...
@overload
def pair_scores(
    left: Annotated[NDArray[numpy.float64], dict(order="C", device="cpu", writable=False)],
    right: Annotated[NDArray[numpy.float64], dict(order="C", device="cpu", writable=False)],
    rows: Annotated[NDArray[numpy.int64], dict(order="C", device="cpu", writable=False)],
    columns: Annotated[NDArray[numpy.int64], dict(order="C", device="cpu", writable=False)],
    n_threads: int,
) -> Annotated[NDArray[numpy.float64], dict(order="C", device="cpu")]:
    """left[rows[p]] . right[columns[p]] for every p."""

@overload
def best_of_product(
    left: tuple[
        Annotated[NDArray[numpy.int64], dict(order="C", device="cpu", writable=False)],
        Annotated[NDArray[numpy.int32], dict(order="C", device="cpu", writable=False)],
        Annotated[NDArray[numpy.float32], dict(order="C", device="cpu", writable=False)],
    ],
    right: tuple[
        Annotated[NDArray[numpy.int64], dict(order="C", device="cpu", writable=False)],
        Annotated[NDArray[numpy.int32], dict(order="C", device="cpu", writable=False)],
        Annotated[NDArray[numpy.float32], dict(order="C", device="cpu", writable=False)],
    ],
    order: Annotated[NDArray[numpy.int32], dict(order="C", device="cpu", writable=False)],
    n_columns: int,
    k: int,
    seen: tuple[
        Annotated[NDArray[numpy.int64], dict(order="C", device="cpu", writable=False)],
        Annotated[NDArray[numpy.int32], dict(order="C", device="cpu", writable=False)],
    ]
    | None = None,
    *,
    positive: bool = False,
    n_threads: int,
) -> tuple[
    Annotated[NDArray[numpy.int32], dict(order="C", device="cpu")],
    Annotated[NDArray[numpy.float32], dict(order="C", device="cpu")],
]: ...
@overload
def best_of_product(
    left: tuple[
        Annotated[NDArray[numpy.int64], dict(order="C", device="cpu", writable=False)],
        Annotated[NDArray[numpy.int32], dict(order="C", device="cpu", writable=False)],
        Annotated[NDArray[numpy.float64], dict(order="C", device="cpu", writable=False)],
    ],
    right: tuple[
        Annotated[NDArray[numpy.int64], dict(order="C", device="cpu", writable=False)],
        Annotated[NDArray[numpy.int32], dict(order="C", device="cpu", writable=False)],
        Annotated[NDArray[numpy.float64], dict(order="C", device="cpu", writable=False)],
    ],
    order: Annotated[NDArray[numpy.int32], dict(order="C", device="cpu", writable=False)],
    n_columns: int,
    k: int,
    seen: tuple[
        Annotated[NDArray[numpy.int64], dict(order="C", device="cpu", writable=False)],
        Annotated[NDArray[numpy.int32], dict(order="C", device="cpu", writable=False)],
    ]
    | None = None,
    *,
    positive: bool = False,
    n_threads: int,
) -> tuple[
    Annotated[NDArray[numpy.int32], dict(order="C", device="cpu")],
    Annotated[NDArray[numpy.float64], dict(order="C", device="cpu")],
]:
    """
    Indices and scores of the best k columns of each row of left @ right, both (indptr, indices, values).

    Only columns in `order` are chosen, of equal scores the first there; cells of `seen` are left out. `positive`
    keeps scores above 0 alone. Short lists end in -1 and NaN. The product is never held as a whole.
    """

@overload
def regress(
    indptr: Annotated[NDArray[numpy.int64], dict(order="C", device="cpu", writable=False)],
    indices: Annotated[NDArray[numpy.int32], dict(order="C", device="cpu", writable=False)],
    values: Annotated[NDArray[numpy.float32], dict(order="C", device="cpu", writable=False)],
    rows: Annotated[NDArray[numpy.float32], dict(order="C", device="cpu", writable=False)],
    lam: Annotated[NDArray[numpy.float32], dict(order="C", device="cpu", writable=False)],
    diagonal: Annotated[NDArray[numpy.float32], dict(order="C", device="cpu", writable=False)],
    eta: float,
    weights: Annotated[NDArray[numpy.float32], dict(order="C", device="cpu")],
    fitted: Annotated[NDArray[numpy.float32], dict(order="C", device="cpu")],
    step: Annotated[NDArray[numpy.float32], dict(order="C", device="cpu")],
    moved: Annotated[NDArray[numpy.float32], dict(order="C", device="cpu")],
    tolerance: float,
    max_steps: int,
    n_threads: int,
) -> int: ...
@overload
def regress(
    indptr: Annotated[NDArray[numpy.int64], dict(order="C", device="cpu", writable=False)],
    indices: Annotated[NDArray[numpy.int32], dict(order="C", device="cpu", writable=False)],
    values: Annotated[NDArray[numpy.float64], dict(order="C", device="cpu", writable=False)],
    rows: Annotated[NDArray[numpy.float64], dict(order="C", device="cpu", writable=False)],
    lam: Annotated[NDArray[numpy.float64], dict(order="C", device="cpu", writable=False)],
    diagonal: Annotated[NDArray[numpy.float64], dict(order="C", device="cpu", writable=False)],
    eta: float,
    weights: Annotated[NDArray[numpy.float64], dict(order="C", device="cpu")],
    fitted: Annotated[NDArray[numpy.float64], dict(order="C", device="cpu")],
    step: Annotated[NDArray[numpy.float64], dict(order="C", device="cpu")],
    moved: Annotated[NDArray[numpy.float64], dict(order="C", device="cpu")],
    tolerance: float,
    max_steps: int,
    n_threads: int,
) -> int:
    """
    Weights W, in place, that lower sum_i lam_i |rows_i - W'f_i|^2 + eta |W|^2, by conjugate gradients.

    diagonal : of F'DF + eta I. fitted : F W, kept up to date. step, moved : what moved them last, zeros at first;
    a step is the best along the gradient and that. One that gains no more than `tolerance` of sum lam |rows|^2 is
    the last. Returns the largest number of steps that a strip of columns took.
    """

def group_cells(
    keys: Annotated[NDArray[numpy.int32], dict(order="C", device="cpu", writable=False)],
    indices: Annotated[NDArray[numpy.int32], dict(order="C", device="cpu", writable=False)],
    n_groups: int,
    values: Sequence[
        Annotated[NDArray[numpy.float32], dict(order="C", device="cpu", writable=False)]
        | Annotated[NDArray[numpy.float64], dict(order="C", device="cpu", writable=False)]
    ],
) -> tuple[
    Annotated[NDArray[numpy.int64], dict(order="C", device="cpu")],
    Annotated[NDArray[numpy.int32], dict(order="C", device="cpu")],
    list[
        Annotated[NDArray[numpy.float32], dict(order="C", device="cpu")]
        | Annotated[NDArray[numpy.float64], dict(order="C", device="cpu")]
    ],
]:
    """
    Cells (keys[k], indices[k]) grouped by key in linear time, order kept: (indptr, indices, values).
    """

def transpose(
    indptr: Annotated[NDArray[numpy.int64], dict(order="C", device="cpu", writable=False)],
    indices: Annotated[NDArray[numpy.int32], dict(order="C", device="cpu", writable=False)],
    n_columns: int,
    values: Sequence[
        Annotated[NDArray[numpy.float32], dict(order="C", device="cpu", writable=False)]
        | Annotated[NDArray[numpy.float64], dict(order="C", device="cpu", writable=False)]
    ],
) -> tuple[
    Annotated[NDArray[numpy.int64], dict(order="C", device="cpu")],
    Annotated[NDArray[numpy.int32], dict(order="C", device="cpu")],
    list[
        Annotated[NDArray[numpy.float32], dict(order="C", device="cpu")]
        | Annotated[NDArray[numpy.float64], dict(order="C", device="cpu")]
    ],
]:
    """
    The other orientation of CSR cells in linear time; indices come out sorted: (indptr, indices, values).
    """

@overload
def residuals(
    left: Annotated[NDArray[numpy.float32], dict(order="C", device="cpu", writable=False)],
    moved: Annotated[NDArray[numpy.float32], dict(order="C", device="cpu", writable=False)],
    base: Annotated[NDArray[numpy.float32], dict(order="C", device="cpu", writable=False)],
    right: Annotated[NDArray[numpy.float32], dict(order="C", device="cpu", writable=False)],
    indptr: Annotated[NDArray[numpy.int64], dict(order="C", device="cpu", writable=False)],
    indices: Annotated[NDArray[numpy.int32], dict(order="C", device="cpu", writable=False)],
    targets: Annotated[NDArray[numpy.float32], dict(order="C", device="cpu", writable=False)],
    weights: Annotated[NDArray[numpy.float32], dict(order="C", device="cpu", writable=False)] | None,
    keep: bool,
    n_threads: int,
) -> tuple[
    Annotated[NDArray[numpy.float64], dict(order="C", device="cpu")],
    Annotated[NDArray[numpy.float32], dict(order="C", device="cpu")],
    Annotated[NDArray[numpy.float32], dict(order="C", device="cpu")],
]: ...
@overload
def residuals(
    left: Annotated[NDArray[numpy.float64], dict(order="C", device="cpu", writable=False)],
    moved: Annotated[NDArray[numpy.float64], dict(order="C", device="cpu", writable=False)],
    base: Annotated[NDArray[numpy.float64], dict(order="C", device="cpu", writable=False)],
    right: Annotated[NDArray[numpy.float64], dict(order="C", device="cpu", writable=False)],
    indptr: Annotated[NDArray[numpy.int64], dict(order="C", device="cpu", writable=False)],
    indices: Annotated[NDArray[numpy.int32], dict(order="C", device="cpu", writable=False)],
    targets: Annotated[NDArray[numpy.float64], dict(order="C", device="cpu", writable=False)],
    weights: Annotated[NDArray[numpy.float64], dict(order="C", device="cpu", writable=False)] | None,
    keep: bool,
    n_threads: int,
) -> tuple[
    Annotated[NDArray[numpy.float64], dict(order="C", device="cpu")],
    Annotated[NDArray[numpy.float64], dict(order="C", device="cpu")],
    Annotated[NDArray[numpy.float64], dict(order="C", device="cpu")],
]:
    """
    For each row, over its cells: sums of w, w e, w x, w e^2, w e x, w x^2, where e = target - left . right and
    x = moved . right + base; then e and x of all cells, if they are to be kept.
    """

@overload
def draw_weights(
    indptr: Annotated[NDArray[numpy.int64], dict(order="C", device="cpu", writable=False)],
    residuals: Annotated[NDArray[numpy.float32], dict(order="C", device="cpu", writable=False)],
    given: Annotated[NDArray[numpy.float32], dict(order="C", device="cpu", writable=False)] | None,
    nu: float,
    alpha: float,
    seed: int,
    sweep: int,
    first_row: int,
    n_threads: int,
) -> Annotated[NDArray[numpy.float32], dict(order="C", device="cpu")]: ...
@overload
def draw_weights(
    indptr: Annotated[NDArray[numpy.int64], dict(order="C", device="cpu", writable=False)],
    residuals: Annotated[NDArray[numpy.float64], dict(order="C", device="cpu", writable=False)],
    given: Annotated[NDArray[numpy.float64], dict(order="C", device="cpu", writable=False)] | None,
    nu: float,
    alpha: float,
    seed: int,
    sweep: int,
    first_row: int,
    n_threads: int,
) -> Annotated[NDArray[numpy.float64], dict(order="C", device="cpu")]:
    """
    g Gamma((nu + g) / 2, rate (nu + alpha g e^2) / 2) for every cell, by the number of its row and place.
    """

@overload
def draw_latent(
    indptr: Annotated[NDArray[numpy.int64], dict(order="C", device="cpu", writable=False)],
    scores: Annotated[NDArray[numpy.float32], dict(order="C", device="cpu", writable=False)],
    codes: Annotated[NDArray[numpy.int32], dict(order="C", device="cpu", writable=False)],
    cuts: Annotated[NDArray[numpy.float64], dict(order="C", device="cpu", writable=False)],
    seed: int,
    sweep: int,
    first_row: int,
    n_threads: int,
) -> Annotated[NDArray[numpy.float32], dict(order="C", device="cpu")]: ...
@overload
def draw_latent(
    indptr: Annotated[NDArray[numpy.int64], dict(order="C", device="cpu", writable=False)],
    scores: Annotated[NDArray[numpy.float64], dict(order="C", device="cpu", writable=False)],
    codes: Annotated[NDArray[numpy.int32], dict(order="C", device="cpu", writable=False)],
    cuts: Annotated[NDArray[numpy.float64], dict(order="C", device="cpu", writable=False)],
    seed: int,
    sweep: int,
    first_row: int,
    n_threads: int,
) -> Annotated[NDArray[numpy.float64], dict(order="C", device="cpu")]:
    """Normals about the scores, each cut to (cuts[code], cuts[code + 1])."""

@overload
def class_sums(
    scores: Annotated[NDArray[numpy.float32], dict(order="C", device="cpu", writable=False)],
    codes: Annotated[NDArray[numpy.int32], dict(order="C", device="cpu", writable=False)],
    cuts: Annotated[NDArray[numpy.float64], dict(order="C", device="cpu", writable=False)],
    n_threads: int,
) -> Annotated[NDArray[numpy.float64], dict(order="C", device="cpu")]: ...
@overload
def class_sums(
    scores: Annotated[NDArray[numpy.float64], dict(order="C", device="cpu", writable=False)],
    codes: Annotated[NDArray[numpy.int32], dict(order="C", device="cpu", writable=False)],
    cuts: Annotated[NDArray[numpy.float64], dict(order="C", device="cpu", writable=False)],
    n_threads: int,
) -> Annotated[NDArray[numpy.float64], dict(order="C", device="cpu")]:
    """
    Log likelihood of ordered classes, its gradient in the inner cuts, the diagonal and what is beside it of the
    second derivatives: 1 + (K - 1) + (K - 1) + (K - 2) numbers.
    """

def philox(key: int, c0: int, c1: int, c2: int, c3: int) -> tuple[int, int, int, int]:
    """The four words of a counter under a key; for tests."""

def instruction_set() -> str:
    """The path in use."""

def instruction_sets() -> list[str]:
    """The paths this CPU can run, best first."""

def use_instruction_set(name: str) -> None:
    """Take another path; for tests and benchmarks."""

long_row: int = 16384

chunk_cells: int = 8192
