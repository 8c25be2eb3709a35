"""CFEnsemble: many classifiers' predictions, few labels, one calibrated probability for each instance.

Composes inputs, a factorisation of the combined loss, and an aggregator. What happens after `fit` is in `lifecycle.py`,
`federated.py` and `diagnostics.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from halfstep.core.arrays import Floats
from halfstep.core.initial import seed_from
from halfstep.core.loop import Callback
from halfstep.ensemble.aggregators import make_aggregator
from halfstep.ensemble.baselines import ShrunkenStacking
from halfstep.ensemble.diagnostics import Diagnostics, classifier_weights, diagnose
from halfstep.ensemble.factors import FusionFactors
from halfstep.ensemble.federated import FederatedMixin
from halfstep.ensemble.fitting import FittingMixin
from halfstep.ensemble.fusion import Fusion, by_class
from halfstep.ensemble.inputs import class_weights, expand_labels, read_features, read_groups, read_rows
from halfstep.ensemble.lifecycle import LifecycleMixin
from halfstep.ensemble.parameters import ParametersMixin
from halfstep.ensemble.predictions import CLIP, expit
from halfstep.ensemble.spark import OnSparkMixin, is_spark_frame
from halfstep.ensemble.storing import StoringMixin
from halfstep.figures.shown import ShownEnsemble

SOLVERS = ("exact", "als")


class CFEnsemble(  # type: ignore[misc]
    ShownEnsemble,
    ParametersMixin,
    FittingMixin,
    OnSparkMixin,
    LifecycleMixin,
    FederatedMixin,
    StoringMixin,
    ClassifierMixin,  # type: ignore[misc]  # scikit-learn is untyped
    BaseEstimator,  # type: ignore[misc]
):
    """Fuse predictions of m classifiers on n instances, of which some are labelled, by factorising them.

    Row i of factors u and classifier j of factors v meet in the score z_ij = u_i.v_j (biases included). The combined
    loss

        rho     [ sum_cells c_ij (t_ij - z_ij)^2 + reg (sum |u_i|^2 + sum |v_j|^2) ] / sum_cells c_ij
      + (1-rho) [ sum_labelled s_i CE(y_i, h_i) + shrinkage/2 |w|^2 + (a - 1)^2/2 + b^2/200 ] / sum_labelled s_i

    has two means, so `rho` means the same at any size; t_ij is the linked prediction, c_ij its confidence, s_i the
    class weight, and h_i = b + a mean(z_i) + w'(z_i - mean(z_i)) the log odds: a weighted mean held to the plain one.
    `solver="exact"` minimises it by alternation for 0 < rho <= 1, and extrapolates classifiers and aggregator from the
    last sweeps wherever that lowers it; `history_` has it by sweep, and it never rises. `rho=0` is stacking: the
    aggregator alone, on observed scores, missing ones reconstructed. `solver="als"` is the label-aware ALS: labels act
    through the confidence c_ij (1 + alpha q_ij), q the probability given to the true class, and rho does not matter.
    Whatever the solver, the aggregator that predicts is trained on factors of the labelled instances solved again
    without their labels.

    Parameters
    ----------
    rank : latent factors; None is the root of the number of classifiers, between 1 and 10. At most m.
    rho : weight of reconstruction against labels, 0 to 1.
    reg : penalty on factors and biases, in units of one cell of confidence 1.
    confidence : c_ij, anything `halfstep.weights.get` takes: "uniform", "certainty", "calibration", "agreement",
        "label_aware", "label_match", "reliability", an object, or an (n, m) array.
    alpha : strength of labels in confidences, for solver="als" and confidence="label_aware".
    link : "logit" or "identity": what a prediction becomes before its squared error is taken.
    loss : "squared" or "bernoulli" (log(1 + e^z) - t z, whatever the link).
    temperature : T of the Bernoulli loss; targets are sigmoid(logit(p) / T), cells weigh T^2.
    clip : probabilities are held inside [clip, 1 - clip] before a logit.
    biases : whether classifiers and instances have a bias each (a classifier one for each class).
    aggregator : "weighted", "mean", "attention" or a scikit-learn classifier. The combined loss holds "mean" or, for
        all others, "weighted".
    on : what the aggregator weighs beyond the mean: "reconstructed" scores, "latent" factors, or "filled": observed
        scores with missing ones reconstructed.
    shrinkage : how strongly the aggregator is pulled towards the mean; "auto" is chosen by cross-validation for the
        predicting aggregator and 10 in the loss.
    class_weight : "balanced" (n / (k n_class)), None or {label: weight}.
    calibrate : refit the intercepts without class weights, so that probabilities match the labelled instances.
    solver, init ("svd" or "random"), max_iter, tol, max_seconds : how the loss is minimised.
    route : None, or "auto": instances whose novelty is above the `novelty_level` quantile of the fitted ones are
        answered by shrunken stacking.
    dtype : "float32" or "float64" factors.
    engine : where the instances are; None is this machine, `halfstep.engine.spark.SparkEngine` a cluster.

    Attributes
    ----------
    classes_, n_features_in_, history_, n_iter_, converged_
    classifier_factors_ (m, d), instance_factors_ (n * channels, d) : see `combined.Columns` for the columns.
    classifier_weights_ (m,) : what each classifier's score counts in the aggregator, where that is linear.
    novelty_ (n,), routed_ (n,) : share of each instance that the factors cannot reconstruct; who went to the stacker.
    diagnostics_ : see `diagnostics.Diagnostics`.
    frame_columns_ : after a fit on a cluster, the names of its "predictions" and "features". What is said above of
        instances is about the labelled ones then.
    """

    def __init__(
        self,
        rank: int | None = None,
        rho: float = 0.5,
        reg: float = 2.0,
        confidence: Any = "uniform",
        alpha: float = 1.0,
        link: str = "logit",
        loss: str = "squared",
        temperature: float = 1.0,
        clip: float = CLIP,
        biases: bool = True,
        aggregator: Any = "weighted",
        on: str = "reconstructed",
        shrinkage: float | str = "auto",
        class_weight: Any = "balanced",
        calibrate: bool = True,
        solver: str = "exact",
        init: str = "svd",
        max_iter: int = 50,
        tol: float = 1e-5,
        max_seconds: float | None = None,
        route: str | None = None,
        novelty_level: float = 0.99,
        dtype: str = "float32",
        n_threads: int | None = None,
        random_state: Any = 0,
        callbacks: Sequence[Callback] = (),
        engine: Any = None,
        verbose: int = 0,
    ) -> None:
        self.rank = rank
        self.rho = rho
        self.reg = reg
        self.confidence = confidence
        self.alpha = alpha
        self.link = link
        self.loss = loss
        self.temperature = temperature
        self.clip = clip
        self.biases = biases
        self.aggregator = aggregator
        self.on = on
        self.shrinkage = shrinkage
        self.class_weight = class_weight
        self.calibrate = calibrate
        self.solver = solver
        self.init = init
        self.max_iter = max_iter
        self.tol = tol
        self.max_seconds = max_seconds
        self.route = route
        self.novelty_level = novelty_level
        self.dtype = dtype
        self.n_threads = n_threads
        self.random_state = random_state
        self.callbacks = callbacks
        self.engine = engine
        self.verbose = verbose

    # ------------------------------------------------------------------ fit

    def fit(
        self,
        P: Any,
        y: ArrayLike | None = None,
        *,
        features: ArrayLike | None = None,
        groups: ArrayLike | None = None,
        tasks: ArrayLike | None = None,
    ) -> Self:
        """Factorise all instances together and learn the aggregator from the labelled ones.

        P : (n, m) probabilities of the second class, NaN where missing; or (n, m, classes), or a list of m arrays.
        y : (n,) labels, NaN, None or -1 where unlabelled. With no label at all the answer is the mean of the
            reconstructed scores, with a warning.
        features : (n, q) side information; each classifier gets a coefficient for each (standardised) column.
        groups : (m,) names; classifiers of a group share a prior vector.
        tasks : (n,) names of related label sets; they share the factors, and each has its own aggregator, shrunk
            towards the common one.

        With `engine=SparkEngine(spark)`, P is a Spark DataFrame with one row for each instance; y names its column of
        labels, features is a list of its columns, and all other numeric columns are predictions. `transform` answers.
        """
        self._check_parameters()
        if self.engine is not None and self.engine.distributed:
            fitted: Self = self._fit_frame(P, y, features, groups, tasks)
            return fitted
        if is_spark_frame(P):
            raise TypeError("P is a Spark DataFrame; pass engine=SparkEngine(spark) to fit on it where it is")
        self.__dict__.pop("frame_columns_", None)
        rows = read_rows(P, y)
        self._check_labels(rows)
        m = rows.P.shape[1]
        self._rank = self._chosen_rank(m)
        self.classes_, self.n_features_in_ = rows.classes, int(np.shape(P)[1]) if np.ndim(P) == 2 else m
        self._n_channels, self._y, self._flat = rows.n_channels, rows.y, np.ndim(P) == 2
        self._groups = read_groups(groups, m)
        self._tasks = None if tasks is None else self._read_tasks(tasks, rows.n)
        self._standardise(read_features(features, rows.n))
        self._factorise(rows, None)
        self._learn()
        return self

    def _learn(self, rest: Any = None) -> None:
        """The aggregator, the stacker of novel instances, and what is reported about the fitted ones.

        rest : unlabelled rows on a cluster; see `_factorise`.
        """
        V = self._factors.classifier_factors
        fusion = Fusion(self._form(), self._n_channels)
        identity = self._factors.scale.shift != 0
        wanted = "mean" if not (self._y >= 0).any() else self.aggregator
        fusion.learn(
            self._factors,
            make_aggregator(wanted, self.shrinkage, identity),
            self._y,
            lambda y: class_weights(y, self.classes_, self.class_weight),
            tasks=self._tasks,
            calibrate=self.calibrate and wanted != "mean" and self.class_weight is not None,
            seed=seed_from(self.random_state),
        )
        self._fusion = fusion
        self.novelty_ = fusion.learn_novelty(self._factors, (0.0, 0.0) if rest is None else rest.residuals(V))
        if rest is None:
            self._novelty_threshold = float(np.quantile(self.novelty_, self.novelty_level))
        else:
            self._novelty_threshold = rest.novelty_quantile(V, fusion.noise, self.novelty_, self.novelty_level)
        self._fit_stacker()
        self._proba = self._answer(self._factors, self.novelty_, self._tasks)

    def _form(self) -> str:
        return "filled" if self.rho == 0 else self.on

    def _fit_stacker(self) -> None:
        """What answers for novel instances, where `route` asks for it."""
        self._stacker = None
        if self.route == "auto" and (self._y >= 0).any():
            labels = expand_labels(self._y, self._n_channels)
            self._stacker = ShrunkenStacking(clip=self.clip).fit(self._probabilities(self._factors), labels)
        self.routed_ = self._is_novel(self.novelty_)

    # ------------------------------------------------------------------ predict

    def predict_proba(
        self, P: Any = None, *, features: ArrayLike | None = None, tasks: ArrayLike | None = None
    ) -> Floats:
        """(n, classes) probabilities in the order of `classes_`; without P, of the fitted instances.

        New instances are folded in: their factors are solved against the fitted classifiers by the same row kernel. A
        fitted instance's label never enters its own answer, so both ways agree on the same predictions.
        """
        check_is_fitted(self, "classes_")
        if P is None:
            self._need_here("predict_proba")
            return self._proba.copy()
        if is_spark_frame(P):
            return self._answer_frame(P, "probability")  # type: ignore[no-any-return]
        return self._answers(P, features, tasks)[0]

    def _answers(self, P: Any, features: ArrayLike | None, tasks: ArrayLike | None) -> tuple[Floats, Floats]:
        """Probabilities (n, classes) and novelty (n,) of new instances."""
        factors = self._fold_in(P, features)
        names = None if tasks is None else self._read_tasks(tasks, len(factors.channel) // self._n_channels)
        novelty = self._fusion.novelty(factors)
        return self._answer(factors, novelty, names), novelty

    def predict(
        self, P: Any = None, *, features: ArrayLike | None = None, tasks: ArrayLike | None = None
    ) -> NDArray[Any]:
        """(n,) the most probable label of each instance."""
        if is_spark_frame(P):
            return self._answer_frame(P, "prediction")  # type: ignore[no-any-return]
        labels: NDArray[Any] = self.classes_[self.predict_proba(P, features=features, tasks=tasks).argmax(axis=1)]
        return labels

    def novelty(self, P: Any = None, *, features: ArrayLike | None = None) -> Floats:
        """(n,) share of each instance that the factors cannot reconstruct."""
        check_is_fitted(self, "classes_")
        if is_spark_frame(P):
            return self._answer_frame(P, "novelty")  # type: ignore[no-any-return]
        if P is None:
            self._need_here("novelty")
            return self.novelty_.copy()
        return self._fusion.novelty(self._fold_in(P, features))

    @property
    def classifier_weights_(self) -> Floats:
        """(m,) what each classifier's log odds count in the answer."""
        check_is_fitted(self, "classes_")
        return classifier_weights(self._factors, self._fusion)

    @property
    def classifier_factors_(self) -> NDArray[Any]:
        check_is_fitted(self, "classes_")
        return self._factors.classifier_factors

    @property
    def instance_factors_(self) -> NDArray[Any]:
        check_is_fitted(self, "classes_")
        return self._factors.row_factors

    @property
    def diagnostics_(self) -> Diagnostics:
        """Computed when asked for."""
        check_is_fitted(self, "classes_")
        positive = self._row_probabilities()
        return diagnose(self._factors, self._fusion, positive, self._y, self.novelty_, self.history_)

    def _fold_in(self, P: Any, features: ArrayLike | None) -> FusionFactors:
        rows = read_rows(P, None, n_classifiers=len(self._factors.classifier_factors), n_channels=self._n_channels)
        table = read_features(features, rows.n, self._n_features)
        if table is not None:
            table = np.repeat((table - self._feature_mean) / self._feature_scale, self._n_channels, axis=0)
        return self._factors.fold_in(rows.P, rows.channel, table)

    def _answer(self, factors: FusionFactors, novelty: Floats, tasks: NDArray[Any] | None) -> Floats:
        positive = expit(self._fusion.log_odds(factors, tasks))
        if self._stacker is not None:
            novel = np.repeat(self._is_novel(novelty), self._n_channels)
            if novel.any():
                positive[novel] = self._stacker.predict_proba(self._probabilities(factors, novel))[:, 1]
        return by_class(positive, self._n_channels)

    def _is_novel(self, novelty: Floats) -> NDArray[np.bool_]:
        return (novelty > self._novelty_threshold) & (self._stacker is not None)

    def _probabilities(self, factors: FusionFactors, rows: Any = slice(None)) -> Floats:
        """(N, m) predictions behind the targets, clipped as they were."""
        targets = factors.table.targets[rows].astype(np.float64)
        if factors.scale.bernoulli:
            return np.asarray(expit(factors.scale.log_odds_of_targets(targets)))
        return np.asarray(expit(targets)) if factors.scale.link == "logit" else targets
