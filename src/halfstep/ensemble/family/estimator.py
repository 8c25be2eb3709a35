"""CFEnsembleCV: an average over a family of factorisations, each weighed by what held-out labels say of it.

Composes views, members and their weights. Must not know how a view is learned or a member is fitted.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.utils.validation import check_is_fitted
from tqdm.auto import tqdm

from halfstep.core.arrays import Codes, Floats
from halfstep.core.logistic import cross_entropy, fit_logistic
from halfstep.ensemble.family.members import TOLERANCE, EstimatorMember, Labelled, Member, Scene
from halfstep.ensemble.family.parameters import CVParametersMixin
from halfstep.ensemble.family.storing import CVStoringMixin
from halfstep.ensemble.family.views import FIT_ROWS, LINKS, Cells, View
from halfstep.ensemble.family.zoo import SURE_VIEWS, make_members, make_views
from halfstep.ensemble.fusion import by_class
from halfstep.ensemble.inputs import Rows, make_folds, read_rows
from halfstep.ensemble.predictions import CLIP, PredictionWarning, expit
from halfstep.figures.shown import ShownAverage

CHUNK_ROWS = 4096
CALIBRATION_PENALTY = 16.0
"""Of intercepts and slope of the last calibration: the members are calibrated already, so it takes many labels."""


class CFEnsembleCV(CVParametersMixin, CVStoringMixin, ShownAverage, ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Fuse predictions of m classifiers on n instances, of which any number may be labelled, with nothing to tune.

    The members of a family are averaged, never selected. Views are learned from all predictions without labels: the
    mean, the bias-adjusted mean, and factor analyses of the linked predictions over `ranks` and `links`
    (`analysis.FactorAnalysis`: missing cells are not observed, each classifier has its own noise, and no penalty is
    left to choose). On each factorisation stand members that a few labels can teach: its mean score, latent factors
    weighed beyond it, filled scores weighed by each classifier's skill, stacking shrunk towards the mean. Every member
    is held to its unsupervised score. With o_k the out-of-fold log odds of member k on the l labelled instances,

        weight_k  ~  exp(-(l / temperature) (mean log loss of o_k - the lowest)),
        log odds of an instance = a + b sum_k weight_k log odds_k,

    so few labels mean a plain average and none an unsupervised one; a and b are fitted on out-of-fold answers and held
    to 0 and 1.

    Parameters
    ----------
    ranks : latent factors of the factorisations; at most a third of the classifiers is used.
    links : "logit", "identity" or both: what predictions are factorised as.
    estimators : further members, (name, estimator) pairs with `fit(P, y)` and `predict_proba(P)`, such as
        `CFEnsemble(rho=0.5)` or anything in `halfstep.baselines`; refitted for each fold. Two classes only.
    temperature : labels that count as one unit of evidence; infinity is the plain average.
    folds : of the labelled instances. All instances stay in the factorisations.
    calibrate : whether the average gets an intercept and a slope of its own.
    clip : probabilities are held inside [clip, 1 - clip] before a logit.
    max_seconds : no further factorisation is begun after that many seconds; the first ones always are.
    n_threads : threads of the linear algebra; None leaves them as they are.

    Attributes
    ----------
    classes_, n_features_in_
    members_ : list of {"name", "weight", "log_loss", "seconds"}, heaviest first; log_loss is out of fold (None without
        folds), seconds include a share of the member's view. `pandas.DataFrame(model.members_)` is the table.
    uncertainty_ (n,) : see `uncertainty`.
    log_loss_ : out-of-fold log loss of the whole average, None without folds.
    """

    def __init__(
        self,
        ranks: Sequence[int] = (1, 2, 4, 7),
        links: Sequence[str] = LINKS,
        estimators: Sequence[tuple[str, Any]] = (),
        temperature: float = 5.0,
        folds: int = 5,
        calibrate: bool = True,
        clip: float = CLIP,
        max_seconds: float | None = None,
        n_threads: int | None = None,
        random_state: Any = 0,
        verbose: int = 0,
    ) -> None:
        self.ranks = ranks
        self.links = links
        self.estimators = estimators
        self.temperature = temperature
        self.folds = folds
        self.calibrate = calibrate
        self.clip = clip
        self.max_seconds = max_seconds
        self.n_threads = n_threads
        self.random_state = random_state
        self.verbose = verbose

    # ------------------------------------------------------------------ fit

    def fit(self, P: Any, y: ArrayLike | None = None) -> Self:
        """Learn from all instances and the labels there are.

        P : (n, m) probabilities of the second class, NaN where missing; or (n, m, classes), or a list of m arrays.
        y : (n,) labels, NaN, None or -1 where unlabelled; None: nothing is labelled.
        """
        self._check_parameters()
        rows = read_rows(P, y)
        if rows.n_channels > 1 and self.estimators:
            raise ValueError(f"estimators= serve two classes; y has {len(rows.classes)}: {rows.classes[:5].tolist()}")
        self.classes_, self._m, self._n_channels = rows.classes, rows.P.shape[1], rows.n_channels
        self.n_features_in_ = int(np.shape(P)[1]) if np.ndim(P) == 2 else self._m
        cells = Cells(rows.P, rows.channel, self.clip)
        with self._threads():
            self._fit_family(cells, rows)
            self._proba, self.uncertainty_ = self._answer(cells)
        return self

    def _fit_family(self, cells: Cells, rows: Rows) -> None:
        instances = np.flatnonzero(rows.y >= 0)
        labelled_rows = (instances[:, None] * rows.n_channels + np.arange(rows.n_channels)).ravel()
        labelled = Labelled(
            rows.row_labels[labelled_rows].astype(np.float64), self._folds(rows.y[instances], rows.n_channels)
        )
        begun = time.perf_counter()
        views = make_views(self.ranks, self.links, self._m)
        bar = tqdm(
            total=len(views) + 1 + len(self.estimators),
            desc="CFEnsembleCV",
            unit="view",
            delay=0 if self.verbose else 2,
            disable=None,
            leave=bool(self.verbose),
        )
        with bar:
            spent = self._fit_views(views, _sample(cells, self._seed()), begun, bar)
            self._n_labels = len(instances)
            members: list[Member] = make_members(list(self._views.values()), self._n_labels)
            members += self._estimator_members(rows, instances)
            scene = Scene(cells.take(labelled_rows), rows.n_channels, self._views)
            answers, seconds = self._learn_members(members, scene, labelled, bar)
        self._weigh(members, answers, labelled, scene.intercepts)
        self._list_members(seconds, spent)

    def _fit_views(self, views: Sequence[View], cells: Cells, begun: float, bar: Any) -> dict[str, float]:
        """Fit views in turn while there is time; returns the seconds of each."""
        self._views: dict[str, View] = {}
        spent: dict[str, float] = {}
        for view in views:
            started = time.perf_counter()
            late = self.max_seconds is not None and started - begun >= self.max_seconds
            if late and len(self._views) >= min(SURE_VIEWS, len(views)):
                break
            self._views[view.name] = view.fit(cells)
            spent[view.name] = time.perf_counter() - started
            bar.update()
        return spent

    def _learn_members(
        self, members: Sequence[Member], scene: Scene, labelled: Labelled, bar: Any
    ) -> tuple[Floats, list[float]]:
        """(members, r) out-of-fold log odds, and the seconds of each."""
        answers, seconds = [], []
        for member in members:
            started = time.perf_counter()
            answers.append(member.learn(scene, labelled))
            seconds.append(time.perf_counter() - started)
            if isinstance(member, EstimatorMember):
                bar.update()
        bar.update()
        return np.array(answers), seconds

    def _estimator_members(self, rows: Rows, instances: Codes) -> list[EstimatorMember]:
        def refit(estimator: Any) -> Any:
            def fit_again(kept: Any) -> Any:
                y = np.full(rows.n, -1)
                y[instances[kept]] = rows.y[instances[kept]]
                return clone(estimator).fit(rows.P, y)

            return fit_again

        return [EstimatorMember(name, refit(estimator)) for name, estimator in self.estimators]

    def _weigh(self, members: Sequence[Member], answers: Floats, labelled: Labelled, intercepts: Floats) -> None:
        """Weights of the members from their out-of-fold log loss, and the calibration of their average."""
        self._members = list(members)
        weights = np.full(len(members), 1 / len(members))
        self.log_loss_: float | None = None
        self._calibration = np.zeros(self._n_channels + 1)
        self._losses: Floats | None = None
        if labelled.folds is not None:
            self._losses = cross_entropy(answers, labelled.truth).mean(axis=1)
            count = len(labelled.truth) / self._n_channels
            weights = np.exp(-(count / self.temperature) * (self._losses - self._losses.min()))
            weights /= weights.sum()
            average = weights @ answers
            self.log_loss_ = float(cross_entropy(average, labelled.truth).mean())
            if self.calibrate:
                X = np.column_stack([intercepts, average])
                penalty = np.full(X.shape[1], CALIBRATION_PENALTY)
                self._calibration = fit_logistic(
                    X, labelled.truth, np.ones((1, len(X))), penalty, offset=average, tolerance=TOLERANCE
                )[0]
        self.weights_ = weights

    def _list_members(self, seconds: Sequence[float], spent: dict[str, float]) -> None:
        shared = {name: sum(_view(member) == name for member in self._members) for name in spent}
        table: list[dict[str, Any]] = []
        for k, member in enumerate(self._members):
            view = _view(member)
            cost = seconds[k] + (spent[view] / shared[view] if view else 0.0)
            loss = None if self._losses is None else float(self._losses[k])
            table.append({"name": member.name, "weight": float(self.weights_[k]), "log_loss": loss, "seconds": cost})
        self.members_ = sorted(table, key=lambda row: -row["weight"])

    def _folds(self, y: Codes, n_channels: int) -> Codes | None:
        counts = np.bincount(y, minlength=max(2, n_channels))
        folds = make_folds(y, max(2, n_channels), self.folds, self._seed()) if len(y) else None
        if not len(y):
            warnings.warn(
                "y has no labels at all: the answer is the plain average of what needs none",
                PredictionWarning,
                stacklevel=5,
            )
        elif folds is None:
            have = dict(zip(self.classes_.tolist(), counts.tolist(), strict=False))
            warnings.warn(
                f"y has labelled instances {have}; with fewer than two of a class nothing can be held out, so all "
                "members weigh the same",
                PredictionWarning,
                stacklevel=5,
            )
        return None if folds is None else np.repeat(folds, n_channels)

    # ------------------------------------------------------------------ predict

    def predict_proba(self, P: Any = None) -> Floats:
        """(n, classes) probabilities in the order of `classes_`; without P, of the fitted instances.

        New instances are seen through the fitted views. A label never enters its own instance's factors, so both ways
        agree on the same predictions.
        """
        check_is_fitted(self, "classes_")
        return self._proba.copy() if P is None else self._of_new(P)[0]

    def predict(self, P: Any = None) -> NDArray[Any]:
        """(n,) the most probable label of each instance."""
        labels: NDArray[Any] = self.classes_[self.predict_proba(P).argmax(axis=1)]
        return labels

    def uncertainty(self, P: Any = None) -> Floats:
        """(n,) the standard deviation of an instance's probability: members disagree, and each knows little of it.

            sqrt( sum_k weight_k [ (p_k - mean p)^2 + (p_k (1 - p_k))^2 variance_k ] )

        with variance_k that of the member's log odds given the few predictions there are (0 where it has no factors).
        The mean over classes where there are more than two. It says nothing of the noise in labels themselves.
        """
        check_is_fitted(self, "classes_")
        return self.uncertainty_.copy() if P is None else self._of_new(P)[1]

    def _of_new(self, P: Any) -> tuple[Floats, Floats]:
        rows = read_rows(P, None, n_classifiers=self._m, n_channels=self._n_channels)
        with self._threads():
            return self._answer(Cells(rows.P, rows.channel, self.clip))

    def _answer(self, cells: Cells) -> tuple[Floats, Floats]:
        positive, spread = np.empty(len(cells.P)), np.empty(len(cells.P))
        for rows in _chunks(len(cells.P)):
            scene = Scene(cells.take(rows), self._n_channels, self._views)
            answers = np.array([member.log_odds(scene) for member in self._members])
            average = self.weights_ @ answers
            shift = scene.intercepts @ self._calibration[:-1] + self._calibration[-1] * average
            positive[rows] = expit(average + shift)
            probabilities = expit(answers + shift)
            within = np.array([member.variance(scene) for member in self._members])
            between = (probabilities - self.weights_ @ probabilities) ** 2
            spread[rows] = self.weights_ @ (between + (probabilities * (1 - probabilities)) ** 2 * within)
        uncertainty: Floats = np.sqrt(spread).reshape(-1, self._n_channels).mean(axis=1)
        return by_class(positive, self._n_channels), uncertainty


def _view(member: Member) -> str | None:
    view = getattr(member, "view", None)
    return None if view is None else view.name


def _sample(cells: Cells, seed: int) -> Cells:
    """At most FIT_ROWS rows, at random."""
    n = len(cells.P)
    if n <= FIT_ROWS:
        return cells
    return cells.take(np.sort(np.random.default_rng(seed).choice(n, FIT_ROWS, replace=False)))


def _chunks(n: int) -> Iterator[slice]:
    """Ranges of rows whose members' answers are held at one time."""
    for start in range(0, n, CHUNK_ROWS):
        yield slice(start, min(start + CHUNK_ROWS, n))
