"""A call that raises changes nothing: every failure on the way of a mutating method, one after the other.

    refused(lambda: WALS(rank=2).fit(X), lambda model: model.fit(Y), lambda model: model.recommend(3))

is the whole test. The call is made once on a copy, to learn which functions of halfstep it goes through. Then it is
made again for each of them, on another copy, and this time the function raises: when it is first entered, and when it
is last entered. Knows no estimator.
"""

from __future__ import annotations

import copy
import inspect
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np
import scipy.sparse as sp

import halfstep

_SOURCES = str(Path(halfstep.__file__).parent)
_PLAIN = (type(None), bool, int, float, complex, str, bytes, np.generic, np.dtype)


class Injected(Exception):
    """The failure that is injected; no code knows it."""


def refused(make: Callable[[], Any], call: Callable[[Any], Any], answers: Callable[[Any], Any]) -> int:
    """Assert that `call`, failing anywhere, leaves `vars` and `answers` of a model as they were.

    make : a fitted model. call : changes it. answers : what it is asked before and after; anything made of arrays.
    Returns how many failures were injected, so that a test can say that there were some.
    """
    fitted = make()
    answers(fitted)  # fills what is computed when first asked for
    entered = _entered(fitted, call)
    assert entered, "the call goes through no function of halfstep"
    expected = _bits(answers(fitted))
    for number, name in sorted(_chosen(entered).items()):
        model = copy.deepcopy(fitted)
        before, kept = dict(vars(model)), _bits(vars(model))
        try:
            with _failing(number):
                call(model)
        except Injected:
            pass
        else:  # somebody caught the failure and went on, so the call was not refused
            continue
        where = f"a failure in {name} (call {number + 1} of {len(entered)})"
        assert vars(model).keys() == before.keys(), f"{where} left other attributes: {set(vars(model)) ^ set(before)}"
        changed = [key for key, value in vars(model).items() if value is not before[key]]
        assert not changed, f"{where} assigned {changed}"
        now = _bits(vars(model))
        altered = [path for path, bits in kept.items() if now.get(path) != bits]
        assert not altered, f"{where} changed {altered} in place"
        assert _bits(answers(model)) == expected, f"{where} changed the answers"
    return len(_chosen(entered))


def unchanged(model: Any, call: Callable[[], Any], error: type[Exception], answers: Callable[[], Any]) -> None:
    """Assert that `call` raises `error` and leaves `vars(model)` and the answers as they were."""
    before, kept, expected = dict(vars(model)), _bits(vars(model)), _bits(answers())
    try:
        call()
    except error:
        pass
    else:
        raise AssertionError(f"the call did not raise {error.__name__}")
    assert vars(model).keys() == before.keys()
    assert [key for key, value in vars(model).items() if value is not before[key]] == []
    now = _bits(vars(model))
    assert [path for path, bits in kept.items() if now.get(path) != bits] == []
    assert _bits(answers()) == expected


# ---------------------------------------------------------------------- failures


def _entered(fitted: Any, call: Callable[[Any], Any]) -> list[str]:
    """The functions of halfstep that a call enters, in order."""
    names: list[str] = []
    call(copy.deepcopy(fitted))  # imports what is imported late

    def look(code: Any) -> None:
        names.append(f"{Path(code.co_filename).relative_to(_SOURCES)}:{code.co_qualname}")

    model = copy.deepcopy(fitted)
    with _watched(look):
        call(model)
    return names


def _chosen(entered: list[str]) -> dict[int, str]:
    """First and last entry of each function, by number."""
    ends = {name: number for number, name in enumerate(entered)}
    starts = {name: number for number, name in reversed(list(enumerate(entered)))}
    return {number: name for found in (starts, ends) for name, number in found.items()}


@contextmanager
def _failing(number: int) -> Iterator[None]:
    count = -1

    def fail(_: Any) -> None:
        nonlocal count
        count += 1
        if count == number:
            raise Injected

    with _watched(fail):
        yield


@contextmanager
def _watched(look: Callable[[Any], None]) -> Iterator[None]:
    """Call `look` with the code of every function of halfstep that is entered.

    Not of generators: closing one enters it too, where nobody would see it fail. What they call is looked at.
    """

    def profile(frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(_SOURCES) and not code.co_flags & inspect.CO_GENERATOR:
            look(code)

    before = sys.getprofile()
    sys.setprofile(profile)
    try:
        yield
    finally:
        sys.setprofile(before)


# ---------------------------------------------------------------------- bits


def _bits(value: Any) -> dict[str, Any]:
    """Everything that a value is made of, by its path; what is the same in two values has the same bits."""
    found: dict[str, Any] = {}
    _collect(value, "", found, set())
    return found


def _collect(value: Any, path: str, found: dict[str, Any], above: set[int]) -> None:
    if isinstance(value, np.ndarray) and value.dtype != object:
        found[path] = value.dtype.str, value.shape, value.tobytes()
    elif isinstance(value, _PLAIN):
        found[path] = type(value).__name__, repr(value)
    elif isinstance(value, ModuleType | FunctionType | MethodType | type) or id(value) in above:
        return
    else:
        for key, part in _parts(value):
            _collect(part, f"{path}.{key}", found, above | {id(value)})


def _parts(value: Any) -> Iterator[tuple[Any, Any]]:
    if isinstance(value, np.ndarray):
        value = value.ravel().tolist()
    if sp.issparse(value):
        yield from {"csr": sp.csr_array(value).toarray()}.items()
    elif isinstance(value, dict):
        yield from value.items()
    elif isinstance(value, list | tuple):
        yield "length", len(value)
        yield from enumerate(value)
    elif isinstance(value, set | frozenset):
        yield from enumerate(sorted(value, key=repr))
    names = [*getattr(value, "__dict__", {}), *(s for k in type(value).__mro__ for s in getattr(k, "__slots__", ()))]
    for name in names:
        with suppress(AttributeError):
            yield name, getattr(value, name)
