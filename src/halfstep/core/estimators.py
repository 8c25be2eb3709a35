"""scikit-learn's base classes of estimators, with the types that scikit-learn lacks. Everybody takes them from here.

Without types a base class is `Any`, and so would be every attribute of our estimators that nobody has.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from halfstep.errors import require

__all__ = ["BaseEstimator", "ClassifierMixin", "TransformerMixin", "framed"]

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


def framed(estimator: BaseEstimator, rows: Any, index: Any) -> Any:
    """Rows of a transform as a pandas frame with this index, where `set_output` asks for frames; else as they are.

    For input that has not one row for each of them, such as pairs: scikit-learn would take the index of that.
    """
    from sklearn import get_config

    wanted = getattr(estimator, "_sklearn_output_config", {}).get("transform", get_config()["transform_output"])
    return rows if wanted == "default" else require("pandas", "frames").DataFrame(rows, index=index)
