"""Scenarios from whatever a caller has: a file, a mapping, or both."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from . import _native
from .errors import ScenarioError

#: A scenario file's name, or keys and values: nested as in the file, or dotted (``{"tcp.rto_min": "10ms"}``).
ScenarioLike: TypeAlias = "str | os.PathLike[str] | Mapping[str, Any]"


def understand(scenario: ScenarioLike, changes: Mapping[str, Any] | None = None) -> _native.Scenario:
    """The scenario with changes made, not checked yet."""
    try:
        return _understand(scenario, changes)
    except RecursionError:
        raise ScenarioError("the scenario is nested too deeply, or contains itself") from None


def _understand(scenario: ScenarioLike, changes: Mapping[str, Any] | None) -> _native.Scenario:
    if isinstance(scenario, Mapping):
        return _native.Scenario(None, [*_leaves(scenario), *_leaves(changes or {})])
    if isinstance(scenario, (str, os.PathLike)):
        return _native.Scenario(os.fspath(scenario), list(_leaves(changes or {})))
    raise ScenarioError(f"a scenario is a file's name or a dict, not {type(scenario).__name__}")


def _leaves(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    for key, value in values.items():
        if not isinstance(key, str):
            raise ScenarioError(f"key {key!r} is not a string", key=prefix + repr(key))
        _check_text(key, prefix + key)
        if isinstance(value, Mapping) and value:
            yield from _leaves(value, f"{prefix}{key}.")
        else:
            yield prefix + key, toml(value, prefix + key)


def _check_text(text: str, key: str) -> None:
    """Refuses half characters, which no file can hold."""
    if not text.isascii() and any("\ud800" <= character <= "\udfff" for character in text):
        shown = ascii(text)
        raise ScenarioError(f"key `{ascii(key)[1:-1]}`: {shown} is no text: half a character", key=key)


def toml(value: Any, key: str) -> str:
    """A value as TOML writes it; numpy's numbers too."""
    if hasattr(value, "item") and not isinstance(value, (str, bytes)):
        value = value.item()
    match value:
        case bool():
            return "true" if value else "false"
        case int() | float():
            return repr(value)
        case str():
            _check_text(value, key)
            # JSON's strings are TOML's, but for one character.
            return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
        case os.PathLike():
            return toml(os.fspath(value), key)
        case Mapping():
            return "{" + ", ".join(f"{json.dumps(str(k))} = {toml(v, f'{key}.{k}')}" for k, v in value.items()) + "}"
        case Sequence() if not isinstance(value, (bytes, bytearray)):
            return "[" + ", ".join(toml(item, key) for item in value) + "]"
    raise ScenarioError(f"key `{key}`: {value!r} is no value of a scenario", key=key)
