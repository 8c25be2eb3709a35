"""CFEnsembleCV: an average over a family of factorisations, each weighed by what held-out labels say of it.

The front door of `fitting`. Must not know how a view is learned, a member is fitted or a file is laid out.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtri

from halfstep.core.arrays import Floats
from halfstep.core.blas import blas_threads, one_blas_thread
from halfstep.core.estimators import Classifier, available_if
from halfstep.core.fitted import FromFit, fit_of
from halfstep.core.initial import seed_from
from halfstep.data import files
from halfstep.engine.here import LocalEngine
from halfstep.engine.instances import answered
from halfstep.ensemble.conformal import conformal_threshold, label_scores, label_sets
from halfstep.ensemble.diagnostics import Diagnostics
from halfstep.ensemble.family import life
from halfstep.ensemble.family.answers import METHODS, array_answer, frame_answers
from halfstep.ensemble.family.federated import FamilyRound, family_sums, next_family_round
from halfstep.ensemble.family.fitting import FamilyFit
from halfstep.ensemble.family.reading import FamilyReader, fit_rows
from halfstep.ensemble.family.settings import FamilySettings
from halfstep.ensemble.family.storing import from_file, kept_params, to_file
from halfstep.ensemble.family.views import LINKS
from halfstep.ensemble.federated import LEAST_INSTANCES
from halfstep.ensemble.naming import INSTANCE, answer_frame, labelled_accuracy
from halfstep.ensemble.predictions import CLIP
from halfstep.ensemble.sealed import SealedSums, Site
from halfstep.ensemble.sums import SiteSums
from halfstep.figures.shown import ShownAverage


def _meets_frames(model: CFEnsembleCV) -> bool:
    return model.engine is not None or hasattr(model, "frame_columns_")


@dataclass(eq=False, repr=False)
class CFEnsembleCV(Classifier, ShownAverage):
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
    n_threads : as elsewhere; linear algebra runs on one thread whatever it says, which costs least processor time, and
        no bit of an answer depends on it.
    positive : the class whose probability P is. Labels that are text need it, unless P has an axis or names of
        classes; of numbers and booleans it is the larger one: 1, True. `classes_` is sorted whatever it is.
    classes : of the last axis of P, in its order, or those that votes may be for. Needed where a class has no label,
        unless labels are numbers from 0 on.
    votes : whether the cells of P are labels; None: where they can only be that (text, or integers that are labels).
    checkpoint, every, resume : a file that fitted views are written to, every so many of them or seconds ("60s"); a fit
        that was lost goes on with resume=True, to the same bits. Needs an int as `random_state`. docs/checkpoints.md.
    engine : where the instances are; None is this machine, `halfstep.engine.spark.SparkEngine` a cluster, for two
        classes: views are learned from sums over its partitions, members from the labelled instances on the driver.

    With more than two classes, or votes, P is fused jointly: centred log ratios, softmax with shared slopes and
    shrunken intercepts, members of `family.classes.roster`, and a temperature in place of a and b; `links` is not used.

    Attributes
    ----------
    classes_, n_features_in_
    feature_names_in_, instance_ids_ : columns of the frame and ids of the instances, where there were any.
    members_ : list of {"name", "weight", "log_loss", "seconds"}, heaviest first; log_loss is out of fold (None without
        folds), seconds include a share of the member's view, and a file does not keep them.
        `pandas.DataFrame(model.members_)` is the table.
    uncertainty_ (n,) : see `uncertainty`.
    log_loss_ : out-of-fold log loss of the whole average, None without folds.
    frame_columns_ : after a fit on a cluster, the names of its "predictions" and "features". What is said above of
        instances is about the labelled ones then.
    """

    ranks: Sequence[int] = (1, 2, 4, 7)
    links: Sequence[str] = LINKS
    estimators: Sequence[tuple[str, Any]] = ()
    temperature: float = 5.0
    folds: int = 5
    calibrate: bool = True
    clip: float = CLIP
    max_seconds: float | None = None
    n_threads: int | None = None
    random_state: Any = 0
    verbose: int = 0
    positive: Any = None
    classes: Sequence[Any] | None = None
    votes: bool | None = None
    engine: Any = None
    checkpoint: str | os.PathLike[str] | None = None
    every: int | str = 1
    resume: bool = False

    classes_ = FromFit[NDArray[Any]]("classes")
    n_features_in_ = FromFit[int]("n_features_in")
    feature_names_in_ = FromFit[NDArray[Any]]("naming.feature_names")
    instance_ids_ = FromFit[NDArray[Any]]("naming.index.ids")
    members_ = FromFit[list[dict[str, Any]]]("table")
    weights_ = FromFit[Floats]("committee.weights")
    uncertainty_ = FromFit[Floats]("uncertainty")
    log_loss_ = FromFit[float | None]("log_loss")

    def fit(
        self,
        P: Any,
        y: Any = None,
        *,
        features: ArrayLike | None = None,
        groups: ArrayLike | None = None,
        ids: Any = None,
    ) -> Self:
        """Learn from all instances and the labels there are.

        P : (n, m) probabilities of the class `positive`, NaN where missing; or (n, m, classes), or a list of m arrays,
            or a frame or dict with a column for each classifier, which are then known by name. Or votes: (n, m) labels,
            NaN, None or -1 where a classifier abstains.
        y : (n,) labels, or {id: label}; NaN, None or -1 where unlabelled; None: nothing is labelled.
        features : (n, q) side information, finite. Further members weigh it beside the factors.
        groups : (m,) names; further members take each group as one voice and weigh groups, not classifiers.
        ids : (n,) what the instances are called; those of a pandas index otherwise, else row numbers.

        With `engine=SparkEngine(spark)`, P is a Spark DataFrame with one row for each instance; y names its column of
        labels, features is a list of its columns, and all other numeric columns are predictions. `transform` answers.
        """
        engine = LocalEngine(self.n_threads) if self.engine is None else self.engine
        reader = FamilyReader(self._settings(), y, features, groups, ids)
        with blas_threads(1):
            self.fitted_ = engine.instances(P, reader.arrays, reader.frame)
        return self

    def _settings(self) -> FamilySettings:
        return FamilySettings(**self.get_params(deep=False))

    def _again(self, fit: FamilyFit) -> life.Learn:
        return one_blas_thread(partial(fit_rows, self._settings(), fit.n_features_in // fit.n_classifiers))

    def _fit(self) -> FamilyFit:
        fit: FamilyFit = fit_of(self)
        return fit

    def partial_fit(self, P: Any = None, y: Any = None, *, features: ArrayLike | None = None, ids: Any = None) -> Self:
        """Take in more instances (P and, where known, y), or more labels (y alone); the same as one fit on all of it.

        Without P, y (n,) or {id: label} belongs to the fitted instances; NaN, None or -1 leave a label as it is, and
        the views stay as they are, because they know no labels. Unfitted, this is `fit`.
        """
        if not hasattr(self, "fitted_"):
            return self.fit(P, y, features=features, ids=ids)
        self.fitted_ = life.continued(self._again(self._fit()), self._fit(), P, y, ids, features)
        return self

    def add_classifiers(self, P_extra: Any, *, groups: ArrayLike | None = None) -> Self:
        """Take in k more classifiers: P_extra (n, k) or (n, k, classes) on the fitted instances, NaN where missing.

        groups : (k,) names, where the fit had groups.
        """
        self.fitted_ = life.with_classifiers(self._again(self._fit()), self._fit(), P_extra, groups)
        return self

    # ------------------------------------------------------------------ many sites

    def accumulate(
        self, P: Any, y: ArrayLike, *, least: int = LEAST_INSTANCES, site: Site | None = None
    ) -> SiteSums | SealedSums:
        """Sums over this site's instances for the present round of a federated fit; see `family.federated`.

        P : (n, m) predictions, NaN where missing; y : (n,) 0 or 1, NaN where unlabelled.
        least : instances of a site, predictions of a classifier there, and twice the labels, below which sums are
            refused, for they would tell of single instances. Plain sums need so many labels in each fold.
        site : None sends plain sums, of which docs/federated.md says what they give away; `sealed.Site` masks them, so
            that only the total of all sites can be read.
        """
        return family_sums(self._settings(), vars(self).get("federated_"), P, y, least, site)

    def merge(self, sites: Sequence[SiteSums | SealedSums]) -> bool:
        """Take the sums of all sites one round further; True when the model is finished and can predict."""
        found = next_family_round(self._settings(), vars(self).get("federated_"), sites)
        if isinstance(found, FamilyRound):
            self.federated_ = found
            return False
        self.fitted_ = found
        vars(self).pop("federated_", None)
        return True

    # ------------------------------------------------------------------ predict

    def predict_proba(self, P: Any = None, *, features: ArrayLike | None = None) -> Floats:
        """(n, classes) probabilities in the order of `classes_`; without P, of the fitted instances.

        New instances are seen through the fitted views. A label never enters its own instance's factors, so both ways
        agree on the same predictions. features : of the new instances, where the fit had any.
        """
        return self._answered("probability", P, features)

    def predict(self, P: Any = None, *, features: ArrayLike | None = None) -> NDArray[Any]:
        """(n,) the most probable label of each instance."""
        return self._answered("prediction", P, features)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Accuracy on the labelled instances of X; NaN, None and -1 are no labels."""
        return labelled_accuracy(self.predict(X), self.classes_, y, sample_weight)

    def uncertainty(self, P: Any = None, *, features: ArrayLike | None = None) -> Floats:
        """(n,) the standard deviation of an instance's probability: members disagree, and each knows little of it.

            sqrt( sum_k weight_k [ (p_k - mean p)^2 + (s(z_k + d_k) - s(z_k - d_k))^2 / 4 ] )

        with z_k the log odds of a member, s the logistic function, and d_k^2 their variance: coefficients that few
        labels leave open, and factors and scores that few predictions leave open. It is about the answer that
        all predictions and many labels would give, and says nothing of the noise in labels themselves. That of the
        likeliest class where there are more than two, of predictions alone.
        """
        return self._answered("uncertainty", P, features)

    @one_blas_thread
    def predict_set(self, P: Any = None, *, level: float = 0.9, features: ArrayLike | None = None) -> NDArray[np.bool_]:
        """(n, classes) the classes that an instance may have; the truth is among them with probability `level`.

        Split-conformal: with s_i = 1 - p_i(y_i) of the l labelled instances, p_i from folds without them, a class is in
        the set where 1 - p is at most the ceil((l + 1) level)-th smallest s. So the sets hold the truth at least that
        often for instances drawn like the labelled ones, however wrong the probabilities are. Too few labels for the
        level give all classes. A set of one class is an answer, a larger one a question.
        """
        fit = self._fit()
        if fit.held is None or fit.labels is None:
            raise ValueError(
                "predict_set needs labels that were held out: at least two of each class, and a fit on them"
            )
        scores = label_scores(fit.held, fit.labels[fit.labels >= 0])
        return label_sets(array_answer(fit, "probability", P, features), conformal_threshold(scores, level))

    def novelty(self, P: Any = None) -> Floats:
        """(n,) the share of fitted instances whose predictions are nearer to what their factor analysis expects.

        Distances are those of Mahalanobis under factors and noise, over what is observed; 1 is unlike all of them.
        """
        return self._answered("novelty", P, None)

    def _answered(self, name: str, P: Any, features: ArrayLike | None) -> NDArray[Any]:
        fit = self._fit()
        with blas_threads(1):
            here = partial(array_answer, fit, name, features=features)
            answer: NDArray[Any] = answered(P, here, partial(frame_answers, fit, (name,), keep=False))
        return answer

    @available_if(_meets_frames)
    def transform(self, P: Any) -> Any:
        """A Spark DataFrame with four more columns, one answer for each row, made where the row is.

        probability : array<double>, in the order of `classes_`; prediction : the most probable label; uncertainty and
        novelty : double. P needs the prediction and feature columns of the fit; all its columns are kept.
        """
        return frame_answers(self._fit(), tuple(METHODS), P, keep=True)

    def query(self, n: int = 1) -> NDArray[Any]:
        """(n,) ids of the unlabelled instances whose labels would help most, best first; row numbers without ids.

        Greedy information gain of a logistic model on the answer and the latent factors of the instances: the next one
        has the largest p (1 - p) x'H^-1 x, H the information of all labelled and already chosen ones.
        """
        return life.query(self._fit(), n)

    @property
    def classifier_weights_(self) -> Floats:
        """(m,) how much the log odds of an answer move with one log odds of each classifier."""
        return life.classifier_weights(self._fit())

    def classifier_intervals(self, level: float = 0.9, *, repeats: int = 20) -> Floats:
        """(m, 2) intervals of the weights: normal, from `repeats` fits on random halves of the labels."""
        if not 0 < level < 1:
            raise ValueError(f"level={level!r} must lie strictly between 0 and 1")
        fit = self._fit()
        errors = life.weight_errors(self._again(fit), fit, repeats, seed_from(self.random_state))
        reach = float(ndtri((1 + level) / 2)) * errors
        weights = life.classifier_weights(fit)
        return np.column_stack([weights - reach, weights + reach])

    @property
    def diagnostics_(self) -> Diagnostics:
        """Computed when asked for; see `life.diagnose`."""
        return life.diagnose(self._fit(), self.classifier_weights_)

    def to_frame(self, P: Any = None, *, features: ArrayLike | None = None, ids: Any = None) -> Any:
        """A pandas DataFrame, ids as index: p_<class> of each class, the answer, and its uncertainty."""
        naming = self._fit().naming
        index = naming.index if P is None else naming.called(P, ids)
        found = {name: self._answered(name, P, features) for name in ("probability", "uncertainty")}
        return answer_frame(index.ids, self.classes_, found.pop("probability"), found)

    @property
    def frame_columns_(self) -> dict[str, list[str]]:
        columns = self._fit().frame_columns
        if columns is None:
            raise AttributeError("a model that was fitted on arrays has no frame_columns_")
        return columns

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write parameters, views, members and answers as one safetensors file; `halfstep.load` reads it back.

        Members of `estimators` cannot be written: files hold no code.
        """
        fit = self._fit()
        self._settings()
        if self.estimators:
            raise ValueError(
                f"estimators={[name for name, _ in self.estimators]} cannot be held by a model file; fit without them "
                "to save, or pickle the estimator yourself"
            )
        params = kept_params(self.get_params(deep=False))
        files.save(path, "CFEnsembleCV", params, *to_file(fit), {INSTANCE: fit.naming.index})

    @classmethod
    def from_saved(cls, saved: files.Saved) -> Self:
        """The model that a file holds; `halfstep.load` calls this of the right class."""
        model: Self = saved.made(cls)
        model._settings()
        model.fitted_ = from_file(saved, model.ranks, model.links, model.clip)
        return model
