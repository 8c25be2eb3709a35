"""What a fit leaves behind is one frozen object, `model.fitted_`; public attributes read from it. Knows no estimator.

    class WALS:
        history_ = FromFit[list[Record]]("outcome.history")

`fit` computes such an object and assigns it once, at its end: whatever raises on the way changes nothing.
"""

from __future__ import annotations

from operator import attrgetter
from typing import Any, Generic, Self, TypeVar, overload

Value = TypeVar("Value")


def fit_of(model: object, so: str = "") -> Any:
    """What was fitted; the one place that refuses a model that is not, or whose mapped file has been cut since.

    so : what follows from that, for the error, which is an AttributeError too, so that hasattr() says no.
    """
    fitted = vars(model).get("fitted_")
    if fitted is None:
        from sklearn.exceptions import NotFittedError  # takes a second: when it is needed

        raise NotFittedError(f"this {type(model).__name__} is not fitted yet{so}; call fit first.")
    backing = vars(model).get("backing_")
    if backing is not None:
        backing.check()
    return fitted


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
        return self._read(fit_of(model, f", so it has no {self.name}"))

    def __set__(self, model: object, value: Value) -> None:
        raise AttributeError(f"{self.name} belongs to the fit and cannot be set; call fit.")
