"""CFEnsemble: many classifiers' predictions, few labels, one calibrated probability for each instance.

What people call, and what it says to them. Each method is a function of settings and of the fit, in a file of its own:
`reading`, `fit`, `answers`, `lifecycle`, `federated`, `storing`, `diagnostics`.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from halfstep.core.arrays import Floats
from halfstep.core.estimators import Classifier, available_if
from halfstep.core.fitted import FromFit, fit_of
from halfstep.core.loop import Callback, Record
from halfstep.data.files import Saved
from halfstep.engine.here import LocalEngine
from halfstep.engine.instances import answered
from halfstep.ensemble.answers import METHODS, array_answer, frame_answers, own_answer
from halfstep.ensemble.diagnostics import Diagnostics, classifier_weights, diagnose
from halfstep.ensemble.federated import LEAST_INSTANCES, FederatedRound, next_round, site_sums
from halfstep.ensemble.fit import EnsembleFit
from halfstep.ensemble.lifecycle import PARTIAL_SWEEPS, continued, query, with_classifiers
from halfstep.ensemble.naming import answer_frame, labelled_accuracy
from halfstep.ensemble.reading import EnsembleReader, GivenInstances
from halfstep.ensemble.sealed import SealedSums, Site
from halfstep.ensemble.settings import EnsembleSettings
from halfstep.ensemble.storing import load_fit, save_fit
from halfstep.ensemble.sums import SiteSums
from halfstep.figures.shown import ShownEnsemble


def _meets_frames(model: CFEnsemble) -> bool:
    return model.engine is not None or hasattr(model, "frame_columns_")


@dataclass(eq=False, repr=False)
class CFEnsemble(Classifier, ShownEnsemble):
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
    positive : the class whose probability P is. Labels that are text need it, unless P has an axis or names of
        classes; of numbers and booleans it is the larger one: 1, True. `classes_` is sorted whatever it is.
    scaling : "mean" as above, or "sum": rho [sum over cells] + (1 - rho) [sum over labels], undivided, as the source
        documents write it; labels then count as little beside cells as they are few.
    n_init : fits from so many starts, the first as `init` says and the others random; the lowest loss is kept.
    checkpoint, every, resume : a file that the fit writes itself to every so many sweeps, or seconds ("60s"); one that
        was lost goes on with resume=True, to the bits of one that was not. Needs an int as `random_state`; further
        parts, such as restarts, are kept beside it. docs/checkpoints.md.
    engine : where the instances are; None is this machine, `halfstep.engine.spark.SparkEngine` a cluster.

    Attributes
    ----------
    classes_, n_features_in_, history_, n_iter_, converged_
    feature_names_in_, instance_ids_ : columns of the frame and ids of the instances, where there were any.
    classifier_factors_ (m, d), instance_factors_ (n * channels, d) : see `columns.LatentColumns` for the columns.
    classifier_weights_ (m,) : what each classifier's score counts in the aggregator, where that is linear.
    novelty_ (n,), routed_ (n,) : how far each instance is from what was fitted, 0 to 1, about one half as usual; who
        went to the stacker.
    diagnostics_ : see `diagnostics.Diagnostics`.
    frame_columns_ : after a fit on a cluster, the names of its "predictions" and "features". What is said above of
        instances is about the labelled ones then.
    fitted_ : all of it, as one frozen `fit.EnsembleFit`.
    """

    rank: int | None = None
    rho: float = 0.9
    reg: float = 2.0
    confidence: Any = "uniform"
    alpha: float = 1.0
    link: str = "logit"
    loss: str = "squared"
    temperature: float = 1.0
    clip: float = 0.05
    biases: bool = True
    aggregator: Any = "weighted"
    on: str = "latent"
    shrinkage: float | str = 20.0
    class_weight: Any = "balanced"
    calibrate: bool = True
    solver: str = "exact"
    init: str = "svd"
    max_iter: int = 50
    tol: float = 1e-5
    max_seconds: float | None = None
    route: str | None = None
    novelty_level: float = 0.99
    dtype: str = "float32"
    n_threads: int | None = None
    random_state: Any = 0
    callbacks: Sequence[Callback] = ()
    engine: Any = None
    verbose: int = 0
    positive: Any = None
    scaling: str = "mean"
    n_init: int = 1
    checkpoint: str | os.PathLike[str] | None = None
    every: int | str = 1
    resume: bool = False

    classes_ = FromFit[NDArray[Any]]("classes")
    n_features_in_ = FromFit[int]("n_features_in")
    feature_names_in_ = FromFit[NDArray[Any]]("naming.feature_names")
    instance_ids_ = FromFit[NDArray[Any]]("naming.index.ids")
    history_ = FromFit[list[Record]]("outcome.history")
    n_iter_ = FromFit[int]("n_iter")
    converged_ = FromFit[bool]("outcome.converged")
    classifier_factors_ = FromFit[NDArray[Any]]("factors.classifier_factors")
    instance_factors_ = FromFit[NDArray[Any]]("factors.row_factors")
    novelty_ = FromFit[Floats]("novelty")
    routed_ = FromFit[NDArray[np.bool_]]("routed")

    # ------------------------------------------------------------------ fit

    def fit(
        self,
        P: Any,
        y: Any = None,
        *,
        features: ArrayLike | None = None,
        groups: ArrayLike | None = None,
        tasks: ArrayLike | None = None,
        ids: Any = None,
    ) -> Self:
        """Factorise all instances together and learn the aggregator from the labelled ones.

        P : (n, m) probabilities of the class `positive`, NaN where missing; or (n, m, classes), or a list of m arrays,
            or a frame or dict with a column for each classifier, which are then known by name.
        ids : (n,) what the instances are called; those of a pandas index otherwise, else row numbers.
        y : (n,) labels, or {id: label}; NaN, None or -1 where unlabelled. With no label at all the answer
            is the mean of the reconstructed scores, with a warning.
        features : (n, q) side information; each classifier gets a coefficient for each (standardised) column.
        groups : (m,) names; classifiers of a group share a prior vector.
        tasks : (n,) names of related label sets; they share the factors, and each has its own aggregator, shrunk
            towards the common one.

        With `engine=SparkEngine(spark)`, P is a Spark DataFrame with one row for each instance; y names its column of
        labels, features is a list of its columns, and all other numeric columns are predictions. `transform` answers.
        """
        settings = self._settings()
        engine = LocalEngine(self.n_threads) if self.engine is None else self.engine
        reader = EnsembleReader(settings, y, features, groups, tasks, ids)
        given: GivenInstances = engine.instances(P, reader.arrays, reader.frame)
        self.fitted_ = given.fit(settings)
        return self

    def _settings(self) -> EnsembleSettings:
        return EnsembleSettings.of(self.get_params(deep=False))

    def _fit(self) -> EnsembleFit:
        fit: EnsembleFit = fit_of(self)
        return fit

    def partial_fit(
        self,
        P: Any = None,
        y: Any = None,
        *,
        features: ArrayLike | None = None,
        tasks: ArrayLike | None = None,
        ids: Any = None,
        max_iter: int = PARTIAL_SWEEPS,
    ) -> Self:
        """Go on from the fitted factors with more instances (P and, where known, y), or with more labels (y alone).

        Without P, y (n,) or {id: label} belongs to the fitted instances; NaN, None or -1 leave a label as it
        is. At most `max_iter` sweeps are made from the present classifier factors. Unfitted, this is `fit`.
        """
        if not hasattr(self, "fitted_"):
            return self.fit(P, y, features=features, tasks=tasks, ids=ids)
        self.fitted_ = continued(self._settings(), self.fitted_, P, y, features, tasks, max_iter, ids)
        return self

    def add_classifiers(self, P_extra: Any) -> Self:
        """Take in k more classifiers: their factors are solved against the fitted instances, which stay as they are.

        P_extra : (n, k) or (n, k, classes) predictions on the fitted instances, NaN where missing. Only the aggregator
        is learned again.
        """
        self.fitted_ = with_classifiers(self._settings(), self._fit(), P_extra)
        return self

    # ------------------------------------------------------------------ many sites

    def accumulate(
        self, P: Any, y: ArrayLike, *, least: int = LEAST_INSTANCES, site: Site | None = None
    ) -> SiteSums | SealedSums:
        """Sums over this site's instances for the present round of a federated fit.

        P : (n, m) predictions, NaN where missing; y : (n,) 0 or 1, NaN where unlabelled. Needs solver="als" or rho=1, a
        number as shrinkage, aggregator="weighted" or "mean", calibrate=False, and confidences that look at one instance
        at a time.
        least : instances of a site, predictions of a classifier there, and twice the labels, below which sums are
            refused, for they would tell of single instances.
        site : None sends plain sums, of which docs/federated.md says what they give away; `sealed.Site` masks them, so
            that only the total of all sites can be read, and may add noise.
        """
        if self.positive not in (None, 1):
            raise ValueError(f"positive={self.positive!r}: a federated fit has the classes 0 and 1; pass 1 - P instead")
        return site_sums(self._settings(), vars(self).get("federated_"), P, y, least, site)

    def merge(self, sites: Sequence[SiteSums | SealedSums]) -> bool:
        """Take the sums of all sites one round further; True when the model is finished and can predict."""
        found = next_round(self._settings(), vars(self).get("federated_"), sites)
        if isinstance(found, FederatedRound):
            self.federated_ = found
            return False
        self.fitted_ = found
        del self.federated_
        return True

    # ------------------------------------------------------------------ predict

    def predict_proba(
        self, P: Any = None, *, features: ArrayLike | None = None, tasks: ArrayLike | None = None
    ) -> Floats:
        """(n, classes) probabilities in the order of `classes_`; without P, of the fitted instances.

        New instances are folded in: their factors are solved against the fitted classifiers by the same row kernel. A
        fitted instance's label never enters its own answer, so both ways agree on the same predictions.
        """
        return self._answered("probability", P, features, tasks)

    def predict(
        self, P: Any = None, *, features: ArrayLike | None = None, tasks: ArrayLike | None = None
    ) -> NDArray[Any]:
        """(n,) the most probable label of each instance."""
        return self._answered("prediction", P, features, tasks)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Accuracy on the labelled instances of X; NaN, None and -1 are no labels."""
        return labelled_accuracy(self.predict(X), self.classes_, y, sample_weight)

    def novelty(self, P: Any = None, *, features: ArrayLike | None = None) -> Floats:
        """(n,) how far each instance is from what was fitted, 0 to 1, about one half as usual."""
        return self._answered("novelty", P, features)

    def _answered(self, name: str, P: Any, features: ArrayLike | None, tasks: ArrayLike | None = None) -> NDArray[Any]:
        fit = self._fit()
        if P is None:
            return own_answer(fit, name)
        here = partial(array_answer, fit, name, features=features, tasks=tasks)
        answer: NDArray[Any] = answered(P, here, partial(frame_answers, fit, (name,), keep=False))
        return answer

    @available_if(_meets_frames)
    def transform(self, P: Any) -> Any:
        """A Spark DataFrame with three more columns, one answer for each row, folded in where the row is.

        probability : array<double>, in the order of `classes_`; prediction : the most probable label; novelty : double.
        P needs the prediction and feature columns of the fit; all its columns are kept.
        """
        return frame_answers(self._fit(), tuple(METHODS), P, keep=True)

    def to_frame(
        self, P: Any = None, *, features: ArrayLike | None = None, tasks: ArrayLike | None = None, ids: Any = None
    ) -> Any:
        """A pandas DataFrame, ids as index: p_<class> of each class, the answer, and the novelty of each instance."""
        fit = self._fit()
        index = fit.naming.index if P is None else fit.naming.called(P, ids)
        further = {"novelty": self.novelty(P, features=features)}
        return answer_frame(index.ids, fit.classes, self.predict_proba(P, features=features, tasks=tasks), further)

    def query(self, n: int = 1) -> NDArray[Any]:
        """(n,) ids of the unlabelled instances whose labels would help most, best first; row numbers without ids.

        Greedy information gain of a logistic model on the mean score and the latent factors: the next instance has the
        largest p (1 - p) x'H^-1 x, where H is the information of all labelled and already chosen instances. So it is
        uncertain, unlike those that are known, and unlike the others in the list.
        """
        return query(self._fit(), n)

    @property
    def classifier_weights_(self) -> Floats:
        """(m,) what each classifier's log odds count in the answer."""
        fit = self._fit()
        return classifier_weights(fit.factors, fit.fusion)

    @property
    def diagnostics_(self) -> Diagnostics:
        """Computed when asked for."""
        return diagnose(self._fit())

    @property
    def frame_columns_(self) -> dict[str, list[str]]:
        columns = self._fit().frame_columns
        if columns is None:
            raise AttributeError("a model that was fitted on arrays has no frame_columns_")
        return columns

    # ------------------------------------------------------------------ files

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write parameters, factors, cells and aggregator as one safetensors file; `halfstep.load` reads it back.

        An aggregator that is a scikit-learn classifier cannot be written: files hold no code.
        """
        self._settings()
        save_fit(path, self.get_params(deep=False), self._fit())

    @classmethod
    def from_saved(cls, saved: Saved) -> Self:
        """The model that a file holds; `halfstep.load` calls this of the right class."""
        model: Self = saved.made(cls)
        model.fitted_ = load_fit(model._settings(), saved)
        return model
