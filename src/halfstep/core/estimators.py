"""What scikit-learn asks of an estimator. Importing scikit-learn takes a second, so it is imported when it is asked.

They keep its protocol without being its classes; `core/scikit.py` has those, for what works on its classifiers.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterable
from functools import cache, update_wrapper, wraps
from types import MethodType
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, Self, TypeVar, overload

from halfstep.errors import one_of, require

__all__ = ["Classifier", "Estimator", "Transformer", "available_if", "framed"]

Model = TypeVar("Model")
Given = ParamSpec("Given")
Answer = TypeVar("Answer")

_ROUTED = {"fit", "partial_fit", "predict", "predict_proba", "decision_function", "score", "transform"}
_FRAMES = ("default", "pandas", "polars")


@cache
def _twin(kind: Any) -> Any:
    """A class of scikit-learn's with the methods of `kind`, for what only scikit-learn knows how to answer."""
    from sklearn.base import BaseEstimator

    names = {"__module__": kind.__module__, "__doc__": kind.__doc__, "_is_twin": True}
    return type(kind.__name__, (BaseEstimator, kind), names)


def _for_sklearn(estimator: Estimator) -> Any:
    """The same object, in scikit-learn's eyes: it shares all that the estimator holds."""
    own: Any = type(estimator)
    kind = _twin(own)
    seen = kind.__new__(kind)
    seen.__dict__ = estimator.__dict__
    return seen


class _Request:
    """`set_<method>_request`: which arguments of the method scikit-learn's pipelines pass on to it."""

    def __init__(self, method: str) -> None:
        self.name = f"set_{method}_request"

    def __get__(self, model: Any, owner: type) -> Any:
        if getattr(owner, "_is_twin", False):  # scikit-learn makes its own where nobody has one
            raise AttributeError(self.name)

        def request(self: Estimator, **wanted: Any) -> Estimator:
            getattr(_for_sklearn(self), name)(**wanted)
            return self

        name = self.name
        return request if model is None else MethodType(request, model)


class Estimator:
    """Parameters are the arguments of `__init__`, kept under their names. For scikit-learn all else follows."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        for method in _ROUTED & vars(cls).keys():
            setattr(cls, f"set_{method}_request", _Request(method))

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Parameters by name; `deep` adds those of parameters that are estimators, as `name__parameter`."""
        found = {name: getattr(self, name) for name in sorted(inspect.signature(type(self)).parameters)}
        inner = {k: v for k, v in found.items() if deep and hasattr(v, "get_params") and not isinstance(v, type)}
        return found | {f"{k}__{name}": value for k, v in inner.items() for name, value in v.get_params().items()}

    def set_params(self, **params: Any) -> Self:
        """Set parameters by name, those of parameters that are estimators by `name__parameter`."""
        for name, value in params.items():
            own, nested, rest = name.partition("__")
            known = self.get_params(deep=False)
            if own not in known:
                raise ValueError(
                    f"Invalid parameter {own!r} for estimator {self}. Valid parameters are: {sorted(known)}."
                )
            if nested:
                known[own].set_params(**{rest: value})
            else:
                setattr(self, own, value)
        return self

    def get_metadata_routing(self) -> Any:
        """Which metadata scikit-learn's pipelines are asked to pass on."""
        return _for_sklearn(self).get_metadata_routing()

    def __sklearn_tags__(self) -> Any:
        from sklearn.base import BaseEstimator

        return BaseEstimator.__sklearn_tags__(self)

    def __repr__(self) -> str:
        return repr(_for_sklearn(self))

    def _repr_html_(self) -> str:
        return str(_for_sklearn(self)._repr_html_())

    def __dir__(self) -> Iterable[str]:
        return [name for name in super().__dir__() if hasattr(self, name)]  # not what `available_if` holds back


class Classifier(Estimator):
    """An estimator with `predict`, whose answers are classes."""

    if TYPE_CHECKING:

        def predict(self, X: Any) -> Any: ...

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Accuracy of the answers to X."""
        from sklearn.metrics import accuracy_score

        return float(accuracy_score(y, self.predict(X), sample_weight=sample_weight))

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import ClassifierTags

        tags = super().__sklearn_tags__()
        tags.estimator_type, tags.classifier_tags, tags.target_tags.required = "classifier", ClassifierTags(), True
        return tags


class Transformer(Estimator):
    """An estimator with `transform` and `get_feature_names_out`."""

    if TYPE_CHECKING:

        def fit(self, X: Any, y: Any = None) -> Self: ...
        def transform(self, X: Any) -> Any: ...
        def get_feature_names_out(self, input_features: Any = None) -> Any: ...

    def fit_transform(self, X: Any, y: Any = None, **fit_params: Any) -> Any:
        """Fit to X, then transform it."""
        return self.fit(X, y, **fit_params).transform(X)

    def set_output(self, *, transform: str | None = None) -> Self:
        """What `transform` gives: "default" for arrays, "pandas" or "polars" for frames; None changes nothing."""
        if transform is not None:
            one_of("transform", transform, _FRAMES)
            self._sklearn_output_config = {"transform": transform}
        return self

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import TransformerTags

        tags = super().__sklearn_tags__()
        tags.transformer_tags = TransformerTags()
        return tags


def framed(estimator: Transformer, rows: Any, X: Any, index: Any = None) -> Any:
    """Rows of a transform of X as a frame, where `set_output` or scikit-learn's configuration asks for one.

    index : of the rows, for input that has not one row for each of them, such as pairs; else that of X counts.
    """
    wanted = getattr(estimator, "_sklearn_output_config", {}).get("transform")
    if wanted is None and (sklearn := sys.modules.get("sklearn")) is not None:
        wanted = sklearn.get_config()["transform_output"]
    if wanted in (None, "default"):
        return rows
    names = list(estimator.get_feature_names_out())
    if wanted == "polars":
        return require("polars", "frames").DataFrame(rows, schema=names, orient="row")
    pandas = require("pandas", "frames")
    if index is None and isinstance(X, (pandas.DataFrame, pandas.Series)):
        index = X.index
    return pandas.DataFrame(rows, index=index, columns=names)


class _Available(Generic[Model, Given, Answer]):
    """A method that an object has where `check` of it is true."""

    def __init__(self, check: Callable[[Any], bool], method: Callable[Concatenate[Model, Given], Answer]) -> None:
        self.check, self.method = check, method
        update_wrapper(self, method)  # type: ignore[arg-type]  # a descriptor that is documented as its method

    @overload
    def __get__(self, model: None, owner: type) -> Callable[Concatenate[Model, Given], Answer]: ...
    @overload
    def __get__(self, model: Model, owner: type) -> Callable[Given, Answer]: ...
    def __get__(self, model: Any, owner: type) -> Any:
        def held(model: Any) -> Any:
            refused = f"This {type(model).__name__!r} has no attribute {self.method.__name__!r}"
            try:
                able = self.check(model)
            except Exception as error:  # such as a parameter that is none
                raise AttributeError(refused) from error
            if not able:
                raise AttributeError(refused)
            return MethodType(self.method, model)

        @wraps(self.method)
        def unbound(model: Any, *given: Any, **named: Any) -> Any:
            return held(model)(*given, **named)

        return unbound if model is None else held(model)


def available_if(
    check: Callable[[Any], bool],
) -> Callable[[Callable[Concatenate[Model, Given], Answer]], _Available[Model, Given, Answer]]:
    """A decorator of methods that an object has only where `check` of it is true; elsewhere hasattr() says no."""

    def of(method: Callable[Concatenate[Model, Given], Answer]) -> _Available[Model, Given, Answer]:
        return _Available(check, method)

    return of
