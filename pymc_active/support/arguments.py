"""Refuse arguments of the wrong kind, which a public function's annotations state, before any work starts."""

from __future__ import annotations

import inspect
import os
import reprlib
import sys
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from functools import cache, wraps
from numbers import Integral, Real
from typing import Any, Literal, Union

import numpy as np
import xarray as xr

# Beyond the seeds that NumPy makes.
_LARGEST = 2**128
# Others that serve as well.
_WIDER: dict[Any, Any] = {list: Sequence, tuple: Sequence, dict: Mapping}
_WORDS: dict[Any, str] = {
    bool: "True or False",
    int: "a whole number",
    float: "a number",
    str: "text",
    type(None): "None",
    os.PathLike: "a path",
    np.random.Generator: "a Generator of NumPy",
    tuple[float, float]: "a pair of numbers",
    Mapping: "a dict",
    Sequence: "a sequence",
    Callable: "callable",
}
_SIMPLE = {bool, int, float, str, type(None), Callable, np.random.Generator, os.PathLike}


def checked[**P, R](function: Callable[P, R]) -> Callable[P, R]:
    """The function, with a TypeError or ValueError, by name, for arguments that its annotations do not allow.

    Flags, numbers, text, functions and seeds are checked before the function starts. It refuses other objects in its
    own words; where an error does not name the argument, the annotations say what it needed. The names in a ``Literal``
    and the values in a sequence are left to the function, and so is whatever is like an array.
    """
    signature = inspect.signature(function)

    @wraps(function)
    def call(*arguments: P.args, **keywords: P.kwargs) -> R:
        try:
            given = signature.bind(*arguments, **keywords).arguments
        except TypeError:
            # Python's own error says which function it is.
            return function(*arguments, **keywords)
        _check(function, given)
        try:
            return function(*arguments, **keywords)
        except Exception as error:
            _check(function, given, str(error))
            raise

    return call


def _check(function: Callable, given: Mapping[str, Any], message: str | None = None) -> None:
    """Raise an error for the first argument of the wrong kind: a simple one, or one that a message does not name."""
    for name, kinds in _kinds(function).items():
        # Names beside numbers are a choice that the function words better.
        is_simple = _SIMPLE.issuperset(kinds) and not {str, int}.issubset(kinds)
        if name not in given or is_simple != (message is None):
            continue
        classes = [kind.__name__ for kind in kinds if kind not in _WORDS]
        is_named = message is not None and any(word in message for word in (name, *classes))
        value = given[name]
        if not is_named and not any(_is(value, kind) for kind in kinds):
            words = list(dict.fromkeys(_WORDS.get(kind) or _with_article(kind.__name__) for kind in kinds))
            error = ValueError if isinstance(value, Real) and {int, float} & set(kinds) else TypeError
            raise error(f"{name} must be {' or '.join(words)}; got {reprlib.repr(value)}")
        if name == "random_seed" and isinstance(value, int | np.integer) and value < 0:
            raise ValueError(f"random_seed must not be negative; got {value}")


def _with_article(name: str) -> str:
    return f"{'an' if name[0] in 'AEIOU' else 'a'} {name}"


@cache
def _kinds(function: Callable) -> dict[str, tuple[Any, ...]]:
    """The kinds allowed for each argument, without those of which anything is allowed."""
    variable = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    parameters = inspect.signature(function).parameters
    found = {name: _parts(_hint(function, name)) for name, at in parameters.items() if at.kind not in variable}
    return {name: tuple(kinds) for name, kinds in found.items() if Any not in kinds}


def _hint(function: Callable, name: str) -> Any:
    """The annotation of an argument; ``Any`` if there is none, or if only type checkers import what it names."""
    try:
        one = types.SimpleNamespace(__annotations__={name: function.__annotations__.get(name, Any)})
        return typing.get_type_hints(one, function.__globals__)[name]
    except NameError:
        return Any


def _parts(hint: Any) -> list[Any]:
    """The classes of a union, ``Any`` for what cannot be checked."""
    origin = typing.get_origin(hint)
    if origin in (Union, types.UnionType):
        return [kind for part in typing.get_args(hint) for kind in _parts(part)]
    if origin is Literal:
        return list(dict.fromkeys(type(value) for value in typing.get_args(hint)))
    if isinstance(hint, typing.TypeAliasType):
        return _parts(hint.__value__)
    if origin is tuple and {*typing.get_args(hint)} == {float}:
        return [hint]
    kind = hint if origin is None else origin
    # What is like an array is read by the function.
    return [_WIDER.get(kind, kind) if isinstance(kind, type) and kind is not np.ndarray else Any]


def _is(value: Any, kind: Any) -> bool:
    if isinstance(value, np.ndarray | xr.DataArray) and value.ndim == 0:
        value = value.item()
    is_flag = isinstance(value, bool | np.bool_)
    if kind is bool:
        return is_flag
    if kind is int:
        return isinstance(value, Integral) and not is_flag and abs(int(value)) < _LARGEST
    if kind is float:
        # A whole number may be beyond all floats.
        return isinstance(value, Real) and not is_flag and not sys.float_info.max < abs(value) < np.inf  # type: ignore
    if kind == tuple[float, float]:
        return _is(value, Sequence) and len(value) == 2 and all(_is(part, float) for part in value)
    if kind is Sequence:
        return hasattr(value, "__len__") and not isinstance(value, str | bytes | Mapping)
    return isinstance(value, kind)


# Named by text: these classes are built on top of what refuses them.
_INSTEAD = {
    "GPModel": ": fit it first, pma.fit(gpm)",
    "Learner": ": pass learner.fit, or learner.fit.best of several models",
    "Model": (
        ", a pm.Model: make it a GPModel by pma.from_marginal(gp, name), or without a pm.gp.Marginal use its trace, in "
        "pma.active.bald_from_trace(trace, model, X_pool)"
    ),
    "ProbitFit": ", a classifier: it has fit.predict(X_new) and active.bald_probit(fit, X_pool)",
}


def kind_of(value: Any) -> str:
    """The type of what was passed in place of a fit or a model, and what to do about it."""
    name = type(value).__name__
    return name + _INSTEAD.get(name, "")
