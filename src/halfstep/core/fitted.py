"""What a fit leaves behind is one frozen object, `model.fitted_`; public attributes read from it. Knows no estimator.

    class WALS:
        history_ = FromFit[list[Record]]("outcome.history")

`fit` computes such an object and assigns it once, at its end: whatever raises on the way changes nothing.
"""

from __future__ import annotations

from operator import attrgetter
from typing import Any, Generic, Self, TypeVar, overload

from sklearn.exceptions import NotFittedError

Value = TypeVar("Value")


class FromFit(Generic[Value]):
    """A read-only attribute of an estimator: the value at `path` of its `fitted_`."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._read = attrgetter(path)

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    @overload
    def __get__(self, model: None, owner: type) -> Self: ...
    @overload
    def __get__(self, model: object, owner: type) -> Value: ...
    def __get__(self, model: object | None, owner: type) -> Any:
        if model is None:
            return self
        fitted = vars(model).get("fitted_")
        if fitted is None:  # an AttributeError too, so that hasattr() says no
            raise NotFittedError(f"this {owner.__name__} is not fitted yet, so it has no {self.name}; call fit first.")
        return self._read(fitted)

    def __set__(self, model: object, value: Value) -> None:
        raise AttributeError(f"{self.name} belongs to the fit and cannot be set; call fit.")
