"""What people ask of a fit of implicit feedback: newcomers, what has no interactions yet, reasons. Fits no model."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable
from typing import Any, ClassVar, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from halfstep.core.estimators import Transformer, framed
from halfstep.core.initial import AtZero
from halfstep.core.weighting import Weighting
from halfstep.data.features import Features
from halfstep.data.frames import is_frame
from halfstep.data.ids import Index
from halfstep.data.table import CellsHere, without_cells
from halfstep.engine import Solver
from halfstep.engine.protocol import KeptSide
from halfstep.figures.shown import ShownRecommender
from halfstep.metrics import ndcg_at_k
from halfstep.models.added import Added, AddedScorer
from halfstep.models.answers import Explanation
from halfstep.models.factor import FactorModel
from halfstep.models.fold_in import Newcomer, average_of, explained, somebody_with
from halfstep.models.held_out import keep_some
from halfstep.models.item_index import ItemIndex, Vectors
from halfstep.models.known import expected_new, need, with_items
from halfstep.models.newcomers import NewcomerRecommender
from halfstep.models.recommend import FactorScorer, Scorer, seen_by
from halfstep.models.strength import ImplicitFit


class ImplicitModel(ShownRecommender, Transformer, FactorModel[ImplicitFit], NewcomerRecommender[ImplicitFit]):
    """A fit of implicit feedback that can be asked. How it was fitted its heirs say."""

    dislikes: bool

    _ways: ClassVar[tuple[str, ...]] = ("fold_in", "average")

    @abstractmethod
    def _scheme(self) -> Weighting:
        """What becomes of weights that are given."""

    def _weighed(self, given: Any) -> Any:
        """Cells of rows that come after the fit, weighed as they would have been in it."""
        scheme = self._scheme()
        return given.weighed(scheme, self._fit().margins if scheme.needs_margins else None, self._number())

    def _folded(self, given: Any, features: Any = None, argument: str = "features") -> KeptSide:
        """New users, solved against the fitted items; those without cells are what their features say."""
        fit = self._fit()
        means = expected_new(fit.kept, given, fit.known[0], features, argument, by_id=False)
        start = AtZero(fit.chosen.rank, self._number()) if means is None else None
        problem = fit.chosen.single(given.cells, self._loss(), fit.counts, means)
        return fit.kept.fold_in(given, problem, start, Solver("exact"), self.n_threads)

    # ------------------------------------------------------------------ somebody new

    def transform(self, X: Any, *, user_features: Any = None) -> Any:
        """Factors of new users from their interactions, (rows, rank): the exact row problem against the fitted items.

        X : sparse matrix or array of weights over the fitted items, in their order; or a frame of pairs, or
            `Interactions`, whose rows are its users in the order of their ids. After
            `set_output(transform="pandas")` the answer is a frame, of a frame of pairs with its users as the index.
            After a fit by `SparkEngine`: a Spark DataFrame like that of the fit; the answer is a DataFrame
            (user, factors).
        user_features : of the rows of X, in their order (by id on a cluster), for models that were fitted with such
            features. A row without interactions is what its features say; without both it is an average one.
        """
        fit = self._fit()
        given: Any = self._weighed(fit.kept.read(X, dtype=self._number(), signed=self.dislikes))
        rows = self._folded(given, user_features, "user_features").whole()
        if not isinstance(rows, np.ndarray):  # rows on a cluster are a frame already
            return rows
        return framed(self, rows, X, given.ids[0].ids if is_frame(X) else None)

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:
        """Names of the columns that `transform` gives: wals0, wals1, ..."""
        return np.array([f"wals{k}" for k in range(self._fit().chosen.rank)], object)

    @property
    def _cells_as(self) -> tuple[Any, bool]:
        return self._number(), self.dislikes

    def _new_scorer(self, given: CellsHere, how: str, features: Any = None) -> Scorer:
        weighed = self._weighed(given)
        if how == "average":
            if features is not None:
                raise ValueError("how='average' looks at items alone; leave features out, or take how='fold_in'.")
            return self._scored(average_of(self._fit(), weighed.cells, self._number()))
        return self._told(self._folded(weighed, features).whole(), features, given.cells.to_csr())

    def _scorer(self, rows: NDArray[Any]) -> Scorer:
        fit = self._fit()
        if fit.words is None and fit.kindred is None:
            return super()._scorer(rows)
        return self._told(fit.rows[0][rows], self._about(rows), seen_by(fit, rows))

    def _about(self, rows: NDArray[Any]) -> Features | None:
        """What is known of users of the fit."""
        known = self._fit().known[0]
        return None if known is None else known.features.take(rows)

    def _told(
        self, left: NDArray[Any], users: Features | None, own: Any, new: Features | None = None
    ) -> FactorScorer | AddedScorer:
        """What scores items for rows of users of whom this is known, and who have these cells (CSR).

        new : features of items that nobody has, in place of those of the fit.
        """
        fit = self._fit()
        factors = self._scored(left)
        if new is not None:
            right = need(fit.known[1], 1, "item_features").expected(new)
            factors = FactorScorer(left, right, right, self.n_threads)
        added: list[Added] = []
        if fit.words is not None and users is not None:
            added.append(fit.words.beside(users, np.diff(own.indptr), new))
        if fit.kindred is not None:
            added += fit.kindred.beside(left, factors.right, own, users, new, self.n_threads)
        return AddedScorer(factors, tuple(added)) if added else factors

    def vectors(self, measure: str = "inner") -> Vectors:
        self._refuse_words("vectors")
        return super().vectors(measure)

    def item_index(self, connectivity: int = 16, effort: int = 256) -> ItemIndex:
        self._refuse_words("item_index")
        return super().item_index(connectivity, effort)

    vectors.__doc__, item_index.__doc__ = FactorModel.vectors.__doc__, FactorModel.item_index.__doc__

    def _refuse_words(self, what: str) -> None:
        """Raise where scores are more than products of factors."""
        words = self._fit().words
        if words is not None:
            raise ValueError(
                f"{what} has factors alone, and words in common are a part of the scores of this model "
                f"(common_words={words.strength:g}): fit with common_words=0."
            )

    def _encoded(self, features: Any) -> Features:
        return need(self._fit().known[0], 0, "features").features.encode(features)

    def add_items(self, features: Any, *, labels: Iterable[str] | None = None) -> Self:
        """Items that nobody has yet enter the rankings: each is where its features say.

        features : of the new items, encoded as the `item_features` of the fit: a frame or a dict by id; where the fit
            had no ids, a matrix, whose rows continue the numbering. labels : what they are called, for people.

        The first `partial_fit` with interactions of such an item solves its row.
        """
        fit = self._fit()
        table, known = with_items(fit.table, need(fit.known[1], 1, "add_items"), features, labels)
        new = known.expected(known.features)[len(fit.items) :]
        rows = fit.rows[0], np.concatenate([fit.rows[1], new.astype(fit.rows[1].dtype)])
        self.fitted_ = ImplicitFit.here(table, rows, fit.outcome, chosen=fit.chosen, known=(fit.known[0], known))
        return self

    # ------------------------------------------------------------------ reasons

    def explain(
        self,
        user: Any = None,
        item: Any = None,
        *,
        items: Iterable[Any] | None = None,
        features: Any = None,
    ) -> Explanation:
        """What each item the user has contributes to the score of `item`, largest first; the parts sum to the score.

        For somebody new give `items`, `features` or both instead of `user`. With A the row's matrix, item k contributes
        w_k v_item' A^-1 v_k, since the user's vector is A^-1 (sum_k w_k v_k + lam W'f). Where features of users are
        known, `features` of the answer has what each of them contributes, f_c lam v_item' A^-1 W_c, what words add
        that both sides say (`common_words`), and what rows alike do (`kindred`). Squared loss only.
        """
        fit = self._fit()
        if not self._loss().is_quadratic:
            raise ValueError(f"explain needs loss='squared'; this model has loss={self.loss!r}.")
        if item is None or (user is None) == (items is None and features is None):
            raise ValueError(
                "explain needs `item` and either `user` (an id) or `items` (what somebody new has), `features` or both."
            )
        known = fit.known[0]
        if user is not None:
            row = self.user_positions([user])
            given = CellsHere(fit.cells.take(row), (Index.range(1), fit.items))
            told = None if known is None else known.features.take(row)
        else:
            given = without_cells(fit.items) if items is None else somebody_with(fit, items, None, self._number())
            told = None if known is None and features is None else need(known, 0, "features").encoded(features, 1)
        problem = fit.chosen.single(self._weighed(given).cells, self._loss(), fit.counts)
        place, words, kindred = int(self.item_positions([item])[0]), fit.words, fit.kindred
        beside = None if words is None or told is None else words.parts(told, len(given.cells), place)
        if kindred is not None:
            left = self._folded(self._weighed(given), told).whole() if user is None else fit.rows[0][row]
            alike = kindred.parts(left, fit.rows[1], given.cells.to_csr(), told, place)
            beside = beside if alike is None else alike.merged(beside)
        return explained(fit, Newcomer(problem, told), place, beside)

    # ------------------------------------------------------------------ many rows at once

    def score_rows(self, seen: Any, rows: NDArray[Any] | None = None) -> NDArray[Any]:
        """(len, n_items) scores of all items; seen items are not masked. Dense: pass a block of rows at a time.

        rows : training rows whose fitted factors are used; None folds the rows of `seen` in.
        """
        scorer = self._of_rows(seen, rows)
        return scorer.scores() if isinstance(scorer, AddedScorer) else np.asarray(scorer.left @ scorer.right.T)

    def rank_items(self, seen: Any, n: int, rows: NDArray[Any] | None = None) -> NDArray[np.int32]:
        """Item positions (len, n), best first, padded with -1, cells of `seen` left out.

        rows : training rows whose fitted factors are used; None folds the rows of `seen` in.
        """
        return _ranked(self._of_rows(seen, rows), len(self._fit().items), seen, n)

    def rank_new(
        self,
        seen: Any,
        n: int,
        rows: NDArray[Any] | None = None,
        *,
        user_features: Any = None,
        item_features: Any = None,
    ) -> NDArray[np.int32]:
        """The same for what was not there when the model was fitted.

        user_features : of the rows of `seen`, which are new (`rows` is None) and may have cells or none.
        item_features : of new items, in place of the known ones: positions and `seen` are over them.
        """
        fit = self._fit()
        if item_features is None:
            return _ranked(self._of_rows(seen, rows, user_features), len(fit.items), seen, n)
        new = need(fit.known[1], 1, "item_features").features.encode(item_features)
        nothing = sp.csr_array((np.shape(seen)[0], len(fit.items)))
        return _ranked(self._of_rows(nothing, rows, user_features, new), len(new), seen, n)

    def _of_rows(
        self, seen: Any, rows: NDArray[Any] | None, user_features: Any = None, new: Features | None = None
    ) -> Any:
        """What scores items for training rows, or for new ones with the cells `seen`; see `_told`."""
        fit = self._fit()
        if rows is not None:
            own = seen_by(fit, rows) if fit.words is not None or fit.kindred is not None else None
            return self._told(fit.rows[0][rows], None if own is None else self._about(rows), own, new)
        told = None
        if user_features is not None:
            told = need(fit.known[0], 0, "user_features").encoded(user_features, np.shape(seen)[0])
        return self._told(self.transform(seen, user_features=told), told, sp.csr_array(seen), new)

    def score(self, X: Any, y: Any = None) -> float:
        """Mean NDCG@10 of what users have beyond what the model knows of them.

        X : held-out cells of the fitted users (as many rows as the fit, none of its cells), ranked among what the users
            do not have; or rows of new users over the same items, as scikit-learn's cross-validation gives them: four
            fifths of each row with three cells or more are folded in, and the rest is ranked.
        """
        fit = self._fit()
        given = fit.kept.read(X, dtype=self._number(), signed=self.dislikes).cells.to_csr()
        if not given.nnz:
            raise ValueError("X holds no cell; score needs at least one that was held out.")
        ours = given.shape[0] == len(fit.users) and not given.multiply(fit.cells.to_csr() != 0).nnz
        known, held_out = (None, given) if ours else keep_some(given, 0)
        held_out = sp.csr_array(held_out.multiply(held_out > 0))  # dislikes are nothing to be found
        rows = np.flatnonzero(np.diff(held_out.indptr))
        if not len(rows):
            raise ValueError("no row of X has three cells; new users need some to be known by and some to be found.")
        ranked = self.rank_items(self.seen(rows), 10, rows) if known is None else self.rank_items(known[rows], 10)
        return float(np.mean(ndcg_at_k(ranked, held_out[rows], 10)))


def _ranked(scorer: Scorer, n_items: int, seen: Any, n: int) -> NDArray[np.int32]:
    """(rows, n) positions of the best items that `seen` lacks, padded with -1."""
    places, _ = scorer.best(min(n, n_items), seen, None)
    return np.pad(places, ((0, 0), (0, n - places.shape[1])), constant_values=-1)
