"""From settings as given to a Config: every value checked against its
type, all problems at once.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, get_origin

import msgspec

from collector.config.raw_setting import RawSetting
from collector.config.settings import Config
from collector.config.tree import Path, Setting, sections, settings
from collector.config.units import Seconds

# As in the environment of containers and in Go's strconv.ParseBool, which dcgm-exporter uses.
TRUE = ("true", "1", "yes", "on", "t")
FALSE = ("false", "0", "no", "off", "f")

_AT = re.compile(r"^(?P<what>.*?)(?: - at `\$(?P<where>.*)`)?$", re.DOTALL)


def decode(given: Iterable[RawSetting]) -> tuple[Config, Mapping[Path, str], list[str]]:
    """The configuration of values in rising order of precedence, the origin of each that was
    given, and all problems.
    """
    values: dict[Path, object] = {}
    origins: dict[Path, str] = {}
    problems: list[str] = []
    for one in given:
        try:
            values[one.path] = _value(settings()[one.path], one)
            origins[one.path] = one.origin
        except ValueError as error:
            what = _AT.match(str(error))
            where, said = (what["where"] or "", what["what"]) if what else ("", str(error))
            said = (
                said.replace("`array`", "a list")
                .replace("`object`", "a table")
                .replace("`str`", "text")
            )
            problems.append(f"{one.origin}{where}: {said[:1].lower()}{said[1:]}")
    return _build(Config, (), values), origins, problems


def _value(setting: Setting, given: RawSetting) -> object:
    """The checked value; ValueError says what is wrong with it."""
    if _has_nul(given.value):  # no file, address or name has one; opening such a path raises
        raise ValueError("contains a NUL character")
    value = (
        _from_text(setting, given.value)
        if given.text and isinstance(given.value, str)
        else given.value
    )
    if setting.plain is Seconds:
        return Seconds.parse(value)
    if isinstance(value, bool) and {"on", "off"} <= set(setting.choices):
        value = "on" if value else "off"  # YAML 1.1 takes both words, without quotes, for booleans
    if isinstance(value, str) and setting.choices and value not in setting.choices:
        raise ValueError(f"expected one of {', '.join(setting.choices)}, got {value!r}")
    kinds = {name: type(one) for name, one in value.items()} if isinstance(value, dict) else {}
    for name in (
        name for name, kind in kinds.items() if kind is not str
    ):  # YAML takes 580.10 for the number 580.1
        raise ValueError(f"{name}: expected text, got `{kinds[name].__name__}`; put it in quotes")
    return msgspec.convert(value, setting.type)  # msgspec.ValidationError is a ValueError


def _has_nul(value: object) -> bool:
    if isinstance(value, dict):
        return any(_has_nul(part) for item in value.items() for part in item)
    if isinstance(value, list):
        return any(map(_has_nul, value))
    return isinstance(value, str) and "\0" in value


def _from_text(setting: Setting, text: str) -> object:
    kind: Any = get_origin(setting.plain) or setting.plain
    if kind is bool:
        if text.lower() not in (*TRUE, *FALSE):
            raise ValueError(f"expected true or false, got {text!r}")
        return text.lower() in TRUE
    if kind is int:
        if not re.fullmatch(r"[+-]?\d{1,19}", text):
            raise ValueError(f"expected an integer, got {text!r}")
        return int(text)
    if kind is tuple:
        return tuple(part.strip() for part in text.split(",") if part.strip())
    if kind is dict:
        pairs = [part.partition("=") for part in text.split(",") if part.strip()]
        if not all(equals for _, equals, _ in pairs):
            raise ValueError(f"expected name=value pairs with commas between them, got {text!r}")
        return {name.strip(): value.strip() for name, _, value in pairs}
    return text


def _build(section: type[Any], path: Path, values: Mapping[Path, object]) -> Any:
    below = {
        child[-1]: _build(kind, child, values)
        for child, kind in sections().items()
        if child[:-1] == path
    }
    own = {p[-1]: value for p, value in values.items() if p[:-1] == path}
    return section(**below, **own)
