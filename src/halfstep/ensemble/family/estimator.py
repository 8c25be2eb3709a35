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
from numpy.typing import NDArray
from scipy.special import ndtri
from sklearn.utils.validation import check_is_fitted

from halfstep.core.arrays import Floats
from halfstep.core.blas import blas_threads
from halfstep.core.estimators import ClassifierMixin
from halfstep.core.fitted import FromFit
from halfstep.core.initial import seed_from
from halfstep.data import files
from halfstep.engine.local import thread_count
from halfstep.ensemble.conformal import conformal_threshold, label_scores, label_sets
from halfstep.ensemble.diagnostics import Diagnostics
from halfstep.ensemble.family import life
from halfstep.ensemble.family.classes.fitting import fit_classes
from halfstep.ensemble.family.fitting import FamilyFit, fit_family
from halfstep.ensemble.family.settings import FamilySettings
from halfstep.ensemble.family.storing import from_file, to_file
from halfstep.ensemble.family.views import LINKS, PredictedRows
from halfstep.ensemble.inputs import InstanceRows
from halfstep.ensemble.naming import INSTANCE, Naming, answer_frame, labelled_accuracy, read_named
from halfstep.ensemble.predictions import CLIP
from halfstep.figures.shown import ShownAverage


@dataclass(eq=False, repr=False)
class CFEnsembleCV(ClassifierMixin, ShownAverage):
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
    positive : the class whose probability P is. Labels that are text need it, unless P has an axis or names of
        classes; of numbers and booleans it is the larger one: 1, True. `classes_` is sorted whatever it is.
    classes : of the last axis of P, in its order, or those that votes may be for. Needed where a class has no label,
        unless labels are numbers from 0 on.
    votes : whether the cells of P are labels; None: where they can only be that (text, or integers that are labels).

    With more than two classes, or votes, P is fused jointly: centred log ratios, softmax with shared slopes and
    shrunken intercepts, members of `family.classes.roster`, and a temperature in place of a and b; `links` is not used.

    Attributes
    ----------
    classes_, n_features_in_
    feature_names_in_, instance_ids_ : columns of the frame and ids of the instances, where there were any.
    members_ : list of {"name", "weight", "log_loss", "seconds"}, heaviest first; log_loss is out of fold (None without
        folds), seconds include a share of the member's view. `pandas.DataFrame(model.members_)` is the table.
    uncertainty_ (n,) : see `uncertainty`.
    log_loss_ : out-of-fold log loss of the whole average, None without folds.
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

    classes_ = FromFit[NDArray[Any]]("classes")
    n_features_in_ = FromFit[int]("n_features_in")
    feature_names_in_ = FromFit[NDArray[Any]]("naming.feature_names")
    instance_ids_ = FromFit[NDArray[Any]]("naming.index.ids")
    members_ = FromFit[list[dict[str, Any]]]("table")
    weights_ = FromFit[Floats]("committee.weights")
    uncertainty_ = FromFit[Floats]("uncertainty")
    log_loss_ = FromFit[float | None]("log_loss")

    def fit(self, P: Any, y: Any = None, *, ids: Any = None) -> Self:
        """Learn from all instances and the labels there are.

        P : (n, m) probabilities of the class `positive`, NaN where missing; or (n, m, classes), or a list of m arrays,
            or a frame or dict with a column for each classifier, which are then known by name. Or votes: (n, m) labels,
            NaN, None or -1 where a classifier abstains.
        y : (n,) labels, or {id: label}; NaN, None or -1 where unlabelled; None: nothing is labelled.
        ids : (n,) what the instances are called; those of a pandas index otherwise, else row numbers.
        """
        rows, naming = read_named(P, y, ids, self.positive, classes=self.classes, votes=self.votes)
        width = int(np.shape(P)[1]) if np.ndim(P) == 2 and naming.classes is None else rows.P.shape[1]
        self.fitted_ = self._learn(width // rows.P.shape[1], rows, naming, None)
        return self

    def _learn(self, wide: int, rows: InstanceRows, naming: Naming, views: Any) -> FamilyFit:
        """wide : columns of P for a classifier. views : of the same predictions, where there are any."""
        settings = FamilySettings(**self.get_params(deep=False))
        learn = fit_family if rows.n_channels == 1 else fit_classes
        with self._threads():
            return learn(settings, rows, naming, wide * rows.P.shape[1], views=views)

    def _again(self, fit: FamilyFit) -> life.Learn:
        return partial(self._learn, fit.n_features_in // fit.n_classifiers)

    def _fit(self) -> FamilyFit:
        check_is_fitted(self, "classes_")
        fit: FamilyFit = self.fitted_
        return fit

    def partial_fit(self, P: Any = None, y: Any = None, *, ids: Any = None) -> Self:
        """Take in more instances (P and, where known, y), or more labels (y alone); the same as one fit on all of it.

        Without P, y (n,) or {id: label} belongs to the fitted instances; NaN, None or -1 leave a label as it is, and
        the views stay as they are, because they know no labels. Unfitted, this is `fit`.
        """
        if not hasattr(self, "fitted_"):
            return self.fit(P, y, ids=ids)
        self.fitted_ = life.continued(self._again(self._fit()), self._fit(), P, y, ids)
        return self

    def add_classifiers(self, P_extra: Any) -> Self:
        """Take in k more classifiers: P_extra (n, k) or (n, k, classes) on the fitted instances, NaN where missing."""
        self.fitted_ = life.with_classifiers(self._again(self._fit()), self._fit(), P_extra)
        return self

    def predict_proba(self, P: Any = None) -> Floats:
        """(n, classes) probabilities in the order of `classes_`; without P, of the fitted instances.

        New instances are seen through the fitted views. A label never enters its own instance's factors, so both ways
        agree on the same predictions.
        """
        return self._answer(P)[0].copy()

    def predict(self, P: Any = None) -> NDArray[Any]:
        """(n,) the most probable label of each instance."""
        labels: NDArray[Any] = self.classes_[self.predict_proba(P).argmax(axis=1)]
        return labels

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Accuracy on the labelled instances of X; NaN, None and -1 are no labels."""
        return labelled_accuracy(self.predict(X), self.classes_, y, sample_weight)

    def uncertainty(self, P: Any = None) -> Floats:
        """(n,) the standard deviation of an instance's probability: members disagree, and each knows little of it.

            sqrt( sum_k weight_k [ (p_k - mean p)^2 + (p_k (1 - p_k))^2 variance_k ] )

        with variance_k that of the member's log odds given the few predictions there are (0 where it has no factors).
        That of the likeliest class where there are more than two. It says nothing of the noise in labels themselves.
        """
        return self._answer(P)[1].copy()

    def predict_set(self, P: Any = None, *, level: float = 0.9) -> NDArray[np.bool_]:
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
        return label_sets(self._answer(P)[0], conformal_threshold(scores, level))

    def novelty(self, P: Any = None) -> Floats:
        """(n,) the share of fitted instances whose predictions are nearer to what their factor analysis expects.

        Distances are those of Mahalanobis under factors and noise, over what is observed; 1 is unlike all of them.
        """
        fit = self._fit()
        if P is None:
            return fit.told.novelty()
        rows, _ = fit.naming.rows(P, fit.n_classifiers, fit.n_channels)
        return fit.told.novelty(PredictedRows(rows.P, rows.channel, fit.clip))

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

    def to_frame(self, P: Any = None, *, ids: Any = None) -> Any:
        """A pandas DataFrame, ids as index: p_<class> of each class, the answer, and its uncertainty."""
        naming = self._fit().naming
        index = naming.index if P is None else naming.called(P, ids)
        probabilities, spread = self._answer(P)
        return answer_frame(index.ids, self.classes_, probabilities, {"uncertainty": spread})

    def _answer(self, P: Any) -> tuple[Floats, Floats]:
        fit = self._fit()
        if P is None:
            return fit.probabilities, fit.uncertainty
        rows, _ = fit.naming.rows(P, fit.n_classifiers, fit.n_channels)
        with self._threads():
            return fit.committee.answer(PredictedRows(rows.P, rows.channel, fit.clip))

    def _threads(self) -> Any:
        return blas_threads(None if self.n_threads is None else thread_count(self.n_threads))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write parameters, views, members and answers as one safetensors file; `halfstep.load` reads it back.

        Members of `estimators` cannot be written: files hold no code.
        """
        check_is_fitted(self, "classes_")
        if self.estimators:
            raise ValueError(
                f"estimators={[name for name, _ in self.estimators]} cannot be held by a model file; fit without them "
                "to save, or pickle the estimator yourself"
            )
        params = {k: v for k, v in self.get_params(deep=False).items() if k not in ("random_state", "estimators")}
        params |= {"ranks": [int(rank) for rank in self.ranks], "links": list(self.links)}
        if self.classes is not None:
            params["classes"] = np.asarray(self.classes).tolist()
        if isinstance(self.random_state, int | np.integer):
            params["random_state"] = int(self.random_state)
        files.save(path, "CFEnsembleCV", params, *to_file(self.fitted_), {INSTANCE: self.fitted_.naming.index})

    @classmethod
    def from_saved(cls, saved: files.Saved) -> Self:
        """The model that a file holds; `halfstep.load` calls this of the right class."""
        model = cls(**saved.params)
        model.fitted_ = from_file(saved, model.ranks, model.links, model.clip)
        return model
