"""What fitted models show in notebooks: `plot_*` figures, `report()`, and a card instead of a bare repr.

Estimators inherit these thin methods; each hands data of the fit to a function of `draw`. What a method needs of
its model is declared above it. `report` goes through `hook`, so that nothing above is imported.
"""

from __future__ import annotations

import html
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from halfstep.core import losses
from halfstep.core.arrays import Floats
from halfstep.core.estimators import Estimator
from halfstep.core.fitted import fit_of
from halfstep.errors import check_number, one_of
from halfstep.figures import draw, hook, views


class Shown(Estimator):
    """A fitted model that people can look at; its parameters follow scikit-learn's conventions."""

    fitted_: Any
    """What a fit left behind; only a fitted model has it."""

    def report(
        self, path: str | os.PathLike[str] = "report.html", *, title: str | None = None, **evidence: Any
    ) -> Path:
        """Write one self-contained HTML page about this model and return its path; see `halfstep.report.chapter`."""
        fit_of(self)
        return hook.write(self, path, title=title, **evidence)

    def _facts(self) -> dict[str, str]:
        """What the card of a fitted model says."""
        return {}

    def _repr_html_(self) -> str:
        if not hasattr(self, "fitted_"):
            return super()._repr_html_()
        defaults, params = type(self)().get_params(deep=False), self.get_params(deep=False)
        changed = {k: v for k, v in params.items() if repr(v) != repr(defaults[k]) and k != "callbacks"}
        title = f"{type(self).__name__}({', '.join(f'{k}={v!r}' for k, v in changed.items())})"
        facts = self._facts().items()
        rows = "".join(f"<tr><th scope='row'>{html.escape(k)}</th><td>{html.escape(v)}</td></tr>" for k, v in facts)
        return f"<table><caption>{html.escape(title)}</caption>{rows}</table>"

    def _repr_mimebundle_(self, **options: Any) -> dict[str, str]:
        return {"text/plain": repr(self), "text/html": self._repr_html_()}

    def _need_fit(self) -> None:
        fit_of(self)


class ShownBySweep(Shown):
    """A model that sweeps have fitted: `history_` has a record of each."""

    history_: list[dict[str, Any]]
    converged_: bool

    def plot_objective(self) -> Any:
        """The objective by sweep, the parts that add up to it, and what rankings were worth where that was judged."""
        self._need_fit()
        sweep = np.arange(1, len(self.history_) + 1)
        series = {"objective": views.objectives(self.history_), **views.objective_parts(self.history_)}
        shown = {name: (sweep, values) for name, values in series.items()}
        figure = draw.lines("Objective by sweep", "sweep", "value", shown)
        return draw.second_axis(figure, sweep, views.ranking_metrics(self.history_))

    def _facts(self) -> dict[str, str]:
        if not self.history_:
            return {}
        end = "converged" if self.converged_ else "still falling"
        last = views.objective(self.history_[-1])
        return {"sweeps": f"{len(self.history_)}, {end}", "objective": f"{last:.6g}"}


class ShownRows(ShownBySweep):
    """Users and items with factors."""

    user_ids_: NDArray[Any]
    item_ids_: NDArray[Any]
    user_factors_: NDArray[Any]
    item_factors_: NDArray[Any]
    user_labels_: NDArray[Any] | None
    item_labels_: NDArray[Any] | None

    def _facts(self) -> dict[str, str]:
        if not hasattr(self, "user_factors_"):
            return super()._facts()
        return {"users": f"{len(self.user_ids_):,}", "items": f"{len(self.item_ids_):,}"} | super()._facts()


class ShownRecommender(ShownRows):
    """Figures of a recommender."""

    if TYPE_CHECKING:  # what the estimator has

        def seen(self, rows: NDArray[np.int64]) -> Any: ...
        def explain(self, user: Any = None, item: Any = None, *, items: Any = None) -> Any: ...

    def plot_map(self, side: str = "item", method: str = "auto") -> Any:
        """Items (or users) in the plane by the directions of their factors; see `plane.flat_map`."""
        self._need_fit()
        one_of("side", side, ("item", "user"))
        one_of("method", method, ("auto", "PCA", "t-SNE"))
        factors, ids, labels = (
            (self.item_factors_, self.item_ids_, self.item_labels_)
            if side == "item"
            else (self.user_factors_, self.user_ids_, self.user_labels_)
        )
        counts = views.cell_counts(self.seen, (len(self.user_ids_), len(self.item_ids_)))[side == "item"]
        names, amount = views.titles(ids, labels), np.log10(1 + counts)
        return draw.latent_map(f"Map of {side}s", factors, names, amount, "log10 counts", method)

    def plot_popularity(self) -> Any:
        """Mean score of every item against how many users have it."""
        self._need_fit()
        counts = views.cell_counts(self.seen, (len(self.user_ids_), len(self.item_ids_)))[1]
        scores = views.mean_scores(self.user_factors_, self.item_factors_)
        names = views.titles(self.item_ids_, self.item_labels_)
        x, y = "users who have the item", "mean score over all users"
        return draw.points("Popularity against score", x, y, counts, scores, names).update_xaxes(type="log")

    def plot_explanation(self, user: Any = None, item: Any = None, *, items: Any = None, n: int = 15) -> Any:
        """What each item somebody has contributes to the score of `item`; see `explain`."""
        reason = self.explain(user, item, items=items)
        names = [str(id) for id in reason.ids[:n]]
        return draw.bars(f"Why {item}: score {reason.score:.3f}", "contribution", names, reason.contributions[:n])


class ShownRatings(ShownRows):
    """Figures of a factorisation of ratings."""

    loss: Any
    fitted_: Any
    user_bias_: NDArray[Any]
    item_bias_: NDArray[Any]

    if TYPE_CHECKING:

        def predict(self, X: Any) -> Any: ...

    def plot_residuals(self, pairs: Any = None, y: ArrayLike | None = None) -> Any:
        """Distribution of observed minus predicted, over the ratings given or those of the fit."""
        pairs, observed = ratings_to_judge(self, pairs, y)
        residual = observed - np.asarray(self.predict(pairs), float)
        return draw.histogram("Residuals", "observed minus predicted", {"ratings": residual})

    def plot_calibration(self, pairs: Any = None, y: ArrayLike | None = None) -> Any:
        """What was observed where the model predicted so much: mean, median and the middle 80%, in tenths."""
        pairs, observed = ratings_to_judge(self, pairs, y)
        bins = views.in_bins(self.predict(pairs), observed)
        series = {name: (bins["predicted"], bins[name]) for name in ("90%", "median", "mean", "10%")}
        return draw.lines("Observed against predicted", "predicted", "observed", series)

    def plot_biases(self) -> Any:
        """Distributions of user and item biases."""
        self._need_fit()
        return draw.histogram("Biases", "bias", {"users": self.user_bias_, "items": self.item_bias_})


def ratings_to_judge(model: ShownRatings, pairs: Any, y: ArrayLike | None) -> tuple[Any, Floats]:
    """The ratings given, or those of the fit."""
    model._need_fit()
    if (pairs is None) != (y is None):
        raise ValueError("give both pairs and y, or neither for the ratings of the fit.")
    if pairs is None:
        pairs, y = fitted_ratings(model)
    if pairs is None:
        raise ValueError("this model came from a file, which does not hold the ratings; give pairs and y.")
    return pairs, np.asarray(y, float)


def fitted_ratings(model: ShownRatings) -> tuple[Any, Any]:
    """Pairs and targets of the fit, or (None, None) for a model that came from a file."""
    cells = model.fitted_.cells
    if not isinstance(cells.targets, np.ndarray):
        return None, None
    users, items = np.repeat(np.arange(cells.shape[0]), cells.counts), cells.indices
    pairs = np.column_stack([model.user_ids_[users], model.item_ids_[items]])
    loss = losses.get(model.loss)
    y = loss.decode(cells.targets, getattr(model, "classes_", None)) if loss.form == "margin" else cells.targets
    return pairs, y


class ShownEnsemble(ShownBySweep):
    """Figures of a fused ensemble. `names` are those of the classifiers."""

    n_features_in_: int
    novelty_: Floats

    if TYPE_CHECKING:

        @property
        def instance_factors_(self) -> NDArray[Any]: ...
        @property
        def diagnostics_(self) -> Any: ...
        def predict_proba(self, P: Any = None) -> Floats: ...

    def plot_weights(self, names: Sequence[str] | None = None) -> Any:
        """What each classifier counts in the answer, largest first; the line is the plain mean."""
        self._need_fit()
        weights = np.asarray(self.diagnostics_.classifier_weights)
        named, order = views.classifier_names(names, len(weights)), np.argsort(-weights, kind="stable")
        title, x, mean = "Weights of the classifiers", "what one log odds counts", 1 / len(weights)
        return draw.bars(title, x, [named[j] for j in order], weights[order], mean=mean)

    def plot_similarity(self, names: Sequence[str] | None = None) -> Any:
        """Cosines between classifiers, alike ones side by side."""
        self._need_fit()
        cosines = self.diagnostics_.classifier_similarity
        named = views.classifier_names(names, len(cosines))
        return draw.heat_map("Similarity of the classifiers", cosines, named)

    def plot_calibration(self) -> Any:
        """Share of positives where the model predicted so much, over the labelled instances."""
        self._need_fit()
        curve = self.diagnostics_.calibration
        own, x, y = type(self).__name__, "predicted probability", "share of positives"
        series = {"ideal": ([0, 1], [0, 1]), own: (curve["predicted"], curve["observed"])}
        figure = draw.lines("Calibration", x, y, series, height=600)
        return figure.update_traces(text=curve["count"], selector={"name": own})

    def plot_instances(self, by: str = "answer") -> Any:
        """Instances in the plane, coloured by "answer" (probability of the last class), "difficulty" or "novelty"."""
        self._need_fit()
        one_of("by", by, ("answer", "difficulty", "novelty"))
        latent = instance_vectors(self)
        amount = self.predict_proba()[:, -1] if by == "answer" else getattr(self.diagnostics_, by)
        names = [str(i) for i in range(len(latent))]
        return draw.latent_map("Instances", latent, names, amount, by, "auto")

    def _facts(self) -> dict[str, str]:
        sizes = {"instances": f"{len(self.novelty_):,}", "classifiers": f"{self.n_features_in_:,}"}
        return sizes | super()._facts()


def instance_vectors(model: ShownEnsemble) -> NDArray[Any]:
    """(n, -1) the factors that instances share with classifiers; those of all classes side by side."""
    return np.asarray(model.fitted_.latent)


class ShownAverage(Shown):
    """Figures of an average over a family of ensembles."""

    n_features_in_: int
    members_: list[dict[str, Any]]
    classes_: NDArray[Any]
    uncertainty_: Floats
    log_loss_: float | None

    if TYPE_CHECKING:

        def predict_proba(self, P: Any = None) -> Floats: ...

    def plot_members(self, n: int = 20) -> Any:
        """Weights of the `n` heaviest members; the line is a plain average. Out-of-fold log loss on hovering."""
        self._need_fit()
        check_number("n", n, at_least=1, whole=True)
        shown, mean = self.members_[:n], 1 / len(self.members_)
        losses = [member["log_loss"] for member in shown]
        told = None if losses[0] is None else [f"log loss {loss:.4f}" for loss in losses]
        names, weights = ([member[part] for member in shown] for part in ("name", "weight"))
        return draw.bars("Weights of the members", "weight", names, weights, told, mean=mean)

    def plot_uncertainty(self) -> Any:
        """How far the probability of each instance may be trusted: its standard deviation against itself."""
        self._need_fit()
        x, y = f"probability of {self.classes_[-1]}", "standard deviation of the probability"
        names = [str(i) for i in range(len(self.uncertainty_))]
        return draw.points("Uncertainty of the answers", x, y, self.predict_proba()[:, -1], self.uncertainty_, names)

    def _facts(self) -> dict[str, str]:
        heaviest = self.members_[0]
        facts = {
            "instances": f"{len(self.uncertainty_):,}",
            "classifiers": f"{self.n_features_in_:,}",
            "members": f"{len(self.members_)}, heaviest {heaviest['name']} ({heaviest['weight']:.0%})",
        }
        return facts if self.log_loss_ is None else facts | {"out-of-fold log loss": f"{self.log_loss_:.4f}"}
