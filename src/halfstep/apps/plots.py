"""What fitted models show in notebooks: `plot_*` figures (plotly), `report()`, and a card instead of a bare repr.

Mixed into the estimators, so this file is light: plotly, maps and the report are imported when they are asked for.
The numbers come from `halfstep.report.views`, the same that the report page draws.
"""

from __future__ import annotations

import html
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from halfstep.errors import check_number, one_of, require

# Okabe-Ito, told apart by all common kinds of colour vision.
PALETTE = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#6b7280")


class Shown:
    """A fitted model that people can look at; its parameters follow scikit-learn's conventions."""

    _fit_leaves = "history_"
    """An attribute that only a fitted model has."""

    def report(
        self, path: str | os.PathLike[str] = "report.html", *, title: str | None = None, **evidence: Any
    ) -> Path:
        """Write one self-contained HTML page about this model and return its path; see `halfstep.report.chapter`."""
        from halfstep.apps.report import write_report

        return write_report(self, path, title=title, **evidence)

    def _facts(self) -> dict[str, str]:
        """What the card of a fitted model says."""
        return {}

    def _repr_html_(self) -> str:
        if not hasattr(self, self._fit_leaves):
            shown: str = super()._repr_html_()  # type: ignore[misc]
            return shown
        return _card(self)

    def _repr_mimebundle_(self, **options: Any) -> dict[str, str]:
        return {"text/plain": repr(self), "text/html": self._repr_html_()}

    def _need_fit(self) -> None:
        if not hasattr(self, self._fit_leaves):
            raise ValueError(f"this {type(self).__name__} is not fitted yet; call fit first.")


class Swept(Shown):
    """A model that sweeps have fitted: `history_` has a record of each."""

    history_: list[dict[str, Any]]
    converged_: bool

    def plot_objective(self) -> Any:
        """The objective by sweep, and the parts that add up to it."""
        self._need_fit()
        from halfstep.apps.report.views import objective

        sweep = list(range(1, len(self.history_) + 1))
        parts = [p for p in ("data", "background", "reconstruction", "supervised", "penalty") if p in self.history_[0]]
        series = {"objective": [objective(record) for record in self.history_]}
        series |= {part: [record[part] for record in self.history_] for part in parts}
        figure = _figure("Objective by sweep", "sweep", "value")
        for k, (name, values) in enumerate(series.items()):
            figure.add_scatter(x=sweep, y=values, name=name, mode="lines+markers", line_color=_colour(k))
        return figure

    def _facts(self: Any) -> dict[str, str]:
        from halfstep.apps.report.views import objective

        facts: dict[str, str] = {}
        if hasattr(self, "user_factors_"):
            facts |= {"users": f"{len(self.user_ids_):,}", "items": f"{len(self.item_ids_):,}"}
        if self.history_:
            facts["sweeps"] = f"{len(self.history_)}, {'converged' if self.converged_ else 'still falling'}"
            facts["objective"] = f"{objective(self.history_[-1]):.6g}"
        return facts


class WALSPlots(Swept):
    """Figures of a recommender."""

    def plot_map(self: Any, side: str = "item", method: str = "auto") -> Any:
        """Items (or users) in the plane by the directions of their factors; see `views.flat_map`."""
        self._need_fit()
        one_of("side", side, ("item", "user"))
        one_of("method", method, ("auto", "PCA", "t-SNE"))
        from halfstep.apps.report.views import flat_map, titles

        factors = self.item_factors_ if side == "item" else self.user_factors_
        labels = self.item_labels_ if side == "item" else self.user_labels_
        cells = self._table().observations
        counts = np.asarray((cells.T if side == "item" else cells).counts)
        place, used = flat_map(factors, method)
        names = titles(self.item_ids_ if side == "item" else self.user_ids_, labels)
        figure = _figure(f"Map of {side}s, {used}", "", "", square=True)
        figure.add_scattergl(**_points(place, names, np.log10(1 + counts), "log10 counts"))
        return figure

    def plot_popularity(self: Any) -> Any:
        """Mean score of every item against how many users have it."""
        self._need_fit()
        from halfstep.apps.report.views import item_popularity, mean_scores, titles

        counts = item_popularity(self)
        figure = _figure("Popularity against score", "users who have the item", "mean score over all users")
        names = titles(self.item_ids_, self.item_labels_)
        figure.add_scattergl(x=counts, y=mean_scores(self), text=names, mode="markers", marker_color=PALETTE[0])
        figure.update_xaxes(type="log")
        return figure

    def plot_explanation(self: Any, user: Any = None, item: Any = None, *, items: Any = None, n: int = 15) -> Any:
        """What each item somebody has contributes to the score of `item`; see `explain`."""
        reason = self.explain(user, item, items=items)
        figure = _figure(f"Why {item}: score {reason.score:.3f}", "contribution", "")
        names = [str(id) for id in reason.ids[:n]][::-1]
        figure.add_bar(x=reason.contributions[:n][::-1], y=names, orientation="h", marker_color=PALETTE[0])
        return figure


class PLQMFPlots(Swept):
    """Figures of a factorisation of ratings."""

    def plot_residuals(self: Any, pairs: Any = None, y: ArrayLike | None = None) -> Any:
        """Distribution of observed minus predicted, over the ratings given or those of the fit."""
        pairs, y = self._ratings(pairs, y)
        figure = _figure("Residuals", "observed minus predicted", "share")
        residual = np.asarray(y, float) - np.asarray(self.predict(pairs), float)
        figure.add_histogram(x=residual, histnorm="probability", marker_color=PALETTE[0])
        return figure

    def plot_calibration(self: Any, pairs: Any = None, y: ArrayLike | None = None) -> Any:
        """What was observed where the model predicted so much: mean, median and the middle 80%, in tenths."""
        pairs, y = self._ratings(pairs, y)
        from halfstep.apps.report.views import in_bins

        bins = in_bins(self.predict(pairs), np.asarray(y, float))
        figure = _figure("Observed against predicted", "predicted", "observed")
        for k, name in enumerate(("90%", "median", "mean", "10%")):
            line = {"x": bins["predicted"], "y": bins[name], "name": name, "line_color": _colour(k)}
            figure.add_scatter(**line, mode="lines+markers")
        return figure

    def plot_biases(self: Any) -> Any:
        """Distributions of user and item biases."""
        self._need_fit()
        figure = _figure("Biases", "bias", "share", overlay=True)
        for k, (name, bias) in enumerate({"users": self.user_bias_, "items": self.item_bias_}.items()):
            figure.add_histogram(x=bias, name=name, histnorm="probability", opacity=0.6, marker_color=_colour(k))
        return figure

    def _ratings(self: Any, pairs: Any, y: Any) -> tuple[Any, Any]:
        self._need_fit()
        if (pairs is None) != (y is None):
            raise ValueError("give both pairs and y, or neither for the ratings of the fit.")
        if pairs is None:
            from halfstep.apps.report.plqmf import fitted_ratings

            pairs, y = fitted_ratings(self)
        if pairs is None:
            raise ValueError("this model came from a file, which does not hold the ratings; give pairs and y.")
        return pairs, y


class EnsemblePlots(Swept):
    """Figures of a fused ensemble. `names` are those of the classifiers."""

    def plot_weights(self: Any, names: Sequence[str] | None = None) -> Any:
        """What each classifier counts in the answer, largest first; the line is the plain mean."""
        weights, names = self._weights(names)
        order = np.argsort(weights)
        figure = _figure("Weights of the classifiers", "what one log odds counts", "")
        figure.add_bar(x=weights[order], y=[names[j] for j in order], orientation="h", marker_color=PALETTE[0])
        figure.add_vline(x=1 / len(weights), line_dash="dash", line_color=PALETTE[6])
        return figure

    def plot_similarity(self: Any, names: Sequence[str] | None = None) -> Any:
        """Cosines between classifiers, alike ones side by side."""
        from halfstep.apps.report.views import clustered_order

        _, names = self._weights(names)
        similarity = self.diagnostics_.classifier_similarity
        order = clustered_order(similarity)
        figure = _figure("Similarity of the classifiers", "", "", square=True)
        shown = [names[j] for j in order]
        figure.add_heatmap(z=similarity[np.ix_(order, order)], x=shown, y=shown, colorscale="Cividis")
        return figure

    def plot_calibration(self: Any) -> Any:
        """Share of positives where the model predicted so much, over the labelled instances."""
        self._need_fit()
        curve = self.diagnostics_.calibration
        figure = _figure("Calibration", "predicted probability", "share of positives", square=True)
        figure.add_scatter(x=[0, 1], y=[0, 1], mode="lines", line={"dash": "dash", "color": PALETTE[6]}, name="ideal")
        line = {"x": curve["predicted"], "y": curve["observed"], "line_color": PALETTE[0], "name": type(self).__name__}
        figure.add_scatter(**line, mode="lines+markers", text=curve["count"])
        return figure

    def plot_instances(self: Any, by: str = "answer") -> Any:
        """Instances in the plane, coloured by "answer" (probability of the last class), "difficulty" or "novelty"."""
        self._need_fit()
        one_of("by", by, ("answer", "difficulty", "novelty"))
        from halfstep.apps.report.views import flat_map

        about, n = self.diagnostics_, len(self._y)
        latent = np.asarray(self.instance_factors_)[:, self._factors.columns.shared].reshape(n, -1)
        place, used = flat_map(latent)
        amount = self.predict_proba()[:, -1] if by == "answer" else getattr(about, by)
        figure = _figure(f"Instances, {used}", "", "", square=True)
        figure.add_scattergl(**_points(place, [str(i) for i in range(n)], amount, by))
        return figure

    def _facts(self: Any) -> dict[str, str]:
        sizes = {"instances": f"{len(self.novelty_):,}", "classifiers": f"{self.n_features_in_:,}"}
        return sizes | super()._facts()

    def _weights(self: Any, names: Sequence[str] | None) -> tuple[Any, list[str]]:
        self._need_fit()
        weights = np.asarray(self.diagnostics_.classifier_weights)
        if names is not None and len(names) != len(weights):
            raise ValueError(f"names has {len(names)} entries; this ensemble has {len(weights)} classifiers.")
        return weights, [f"classifier {j}" for j in range(len(weights))] if names is None else [str(n) for n in names]


class AveragePlots(Shown):
    """Figures of an average over a family of ensembles."""

    _fit_leaves = "members_"

    def plot_members(self: Any, n: int = 20) -> Any:
        """Weights of the `n` heaviest members; the line is a plain average. Out-of-fold log loss on hovering."""
        self._need_fit()
        check_number("n", n, at_least=1, whole=True)
        shown = self.members_[:n][::-1]
        losses = [member["log_loss"] for member in shown]
        figure = _figure("Weights of the members", "weight", "")
        figure.add_bar(
            x=[member["weight"] for member in shown],
            y=[member["name"] for member in shown],
            text=None if losses[0] is None else [f"log loss {loss:.4f}" for loss in losses],
            textposition="none",
            orientation="h",
            marker_color=PALETTE[0],
        )
        figure.add_vline(x=1 / len(self.members_), line_dash="dash", line_color=PALETTE[6])
        return figure

    def plot_uncertainty(self: Any) -> Any:
        """How far the probability of each instance may be trusted: its standard deviation against itself."""
        self._need_fit()
        title = f"probability of {self.classes_[-1]}"
        figure = _figure("Uncertainty of the answers", title, "standard deviation of the probability")
        chosen = {"x": self.predict_proba()[:, -1], "y": self.uncertainty_, "marker_color": PALETTE[0]}
        figure.add_scattergl(**chosen, text=[str(i) for i in range(len(self.uncertainty_))], mode="markers")
        return figure

    def _facts(self: Any) -> dict[str, str]:
        heaviest = self.members_[0]
        facts = {
            "instances": f"{len(self.uncertainty_):,}",
            "classifiers": f"{self.n_features_in_:,}",
            "members": f"{len(self.members_)}, heaviest {heaviest['name']} ({heaviest['weight']:.0%})",
        }
        return facts if self.log_loss_ is None else facts | {"out-of-fold log loss": f"{self.log_loss_:.4f}"}


def _colour(k: int) -> str:
    return PALETTE[k % len(PALETTE)]


def _points(place: Any, names: Sequence[str], amount: Any, amount_name: str) -> dict[str, Any]:
    shown = {"color": amount, "colorscale": "Cividis", "showscale": True, "colorbar": {"title": amount_name}, "size": 7}
    return {"x": place[:, 0], "y": place[:, 1], "text": list(names), "mode": "markers", "marker": shown}


def _figure(title: str, x: str, y: str, *, square: bool = False, overlay: bool = False) -> Any:
    figure = require("plotly.graph_objects", "report").Figure()
    figure.update_layout(title=title, template="plotly_white", margin={"l": 60, "r": 20, "t": 50, "b": 50})
    figure.update_xaxes(title=x)
    figure.update_yaxes(title=y)
    if square:
        figure.update_layout(height=600)
    if overlay:
        figure.update_layout(barmode="overlay")
    return figure


def _card(model: Any) -> str:
    """A few lines about a fitted model: what differs from the defaults, sizes, how the fit ended."""
    defaults = type(model)().get_params(deep=False)
    changed = {
        k: v for k, v in model.get_params(deep=False).items() if repr(v) != repr(defaults[k]) and k != "callbacks"
    }
    title = f"{type(model).__name__}({', '.join(f'{k}={v!r}' for k, v in changed.items())})"
    facts = model._facts().items()
    rows = "".join(f"<tr><th scope='row'>{html.escape(k)}</th><td>{html.escape(v)}</td></tr>" for k, v in facts)
    return f"<table><caption>{html.escape(title)}</caption>{rows}</table>"
