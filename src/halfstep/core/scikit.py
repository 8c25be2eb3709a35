"""scikit-learn's own base classes, with the types that it lacks; for estimators that work on its classifiers.

Without types a base class is `Any`, and so would be every attribute of our estimators that nobody has.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

__all__ = ["BaseEstimator", "ClassifierMixin", "TransformerMixin"]

if TYPE_CHECKING:

    class BaseEstimator:
        def get_params(self, deep: bool = True) -> dict[str, Any]: ...
        def set_params(self, **params: Any) -> Self: ...
        def __sklearn_tags__(self) -> Any: ...
        def _repr_html_(self) -> str: ...

    class ClassifierMixin:
        def score(self, X: Any, y: Any, sample_weight: Any = None) -> float: ...

    class TransformerMixin:
        def fit_transform(self, X: Any, y: Any = None) -> Any: ...
        def set_output(self, *, transform: Any = None) -> Self: ...

else:
    from sklearn.base import BaseEstimator, ClassifierMixin, TransformerMixin
