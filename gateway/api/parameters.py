"""Parameters of a request: what each may be, and what was given."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from gateway.api.problem import Problem
from gateway.api.schema import Schema

MAX_TEXT = 256  # a host name has 253 at most, a pod's with its namespace 317: such are cut by none
MAX_NAME = 512

Values = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter: a text, one of ``choices``, or a whole number from ``least`` to ``most``."""

    name: str
    text: str
    where: Literal["query", "path"] = "query"
    choices: Sequence[str] = ()
    least: int | None = None
    most: int | None = None
    default: int | str | None = None
    pattern: str = ""
    required: bool = False
    max_length: int = MAX_NAME
    examples: Sequence[str] = field(default=())

    def schema(self) -> Schema:
        """As JSON Schema."""
        made: dict[str, Any]
        if self.least is not None:
            made = {"type": "integer", "minimum": self.least, "maximum": self.most}
        elif self.choices:
            made = {"type": "string", "enum": [*self.choices]}
        else:
            made = {"type": "string", "minLength": 1, "maxLength": self.max_length}
            if self.pattern:
                made["pattern"] = f"^{self.pattern}$"
        return made if self.default is None else {**made, "default": self.default}

    def read(self, given: str) -> int | str:
        """The value of a text that was given. Problem where it is none."""
        if self.least is not None:
            assert self.most is not None  # noqa: S101 - a number has both bounds
            if not re.fullmatch(r"[0-9]{1,9}", given) or not self.least <= int(given) <= self.most:
                self._wrong(f"a whole number from {self.least} to {self.most}", given)
            return int(given)
        if self.choices:
            if given not in self.choices:
                self._wrong(f"one of {', '.join(self.choices)}", given)
        elif not 0 < len(given) <= self.max_length:
            self._wrong(f"1 to {self.max_length} characters", given)
        elif self.pattern and not re.fullmatch(self.pattern, given):
            self._wrong(f"a text that matches {self.pattern}", given)
        return given

    def _wrong(self, wanted: str, given: str) -> None:
        raise Problem(400, f"{self.name}: {wanted}, not {given!r:.80}", self.name)


def read(parameters: Iterable[Parameter], given: Iterable[tuple[str, str]]) -> Values:
    """Values by name, with defaults. Problem where one is wrong, missing, unknown or repeated."""
    known = {parameter.name: parameter for parameter in parameters}
    values: dict[str, Any] = {}
    for name, text in given:
        if name not in known:
            names = ", ".join(known) or "none"
            raise Problem(
                400, f"{name!r:.80} is no parameter here; known: {names}", name[:MAX_TEXT]
            )
        if name in values:
            raise Problem(400, f"{name}: given twice", name)
        values[name] = known[name].read(text)
    for parameter in known.values():
        if parameter.name not in values:
            if parameter.required:
                raise Problem(400, f"{parameter.name}: is missing", parameter.name)
            values[parameter.name] = parameter.default
    return values
