"""Schemas of answers, in JSON Schema 2020-12 as OpenAPI 3.1 takes them: what the document says and
the tests hold every answer to.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Schema = Mapping[str, Any]

COMPONENTS: dict[str, Schema] = {}


def named(name: str, schema: Schema) -> Schema:
    """A reference to a schema, which the document has once under its name."""
    COMPONENTS[name] = schema
    return {"$ref": f"#/components/schemas/{name}"}


def obj(
    description: str = "", /, *, optional: Mapping[str, Schema] | None = None, **fields: Schema
) -> Schema:
    """An object with exactly these fields; those that are ``optional`` may be left out."""
    return _described(
        {
            "type": "object",
            "properties": {**fields, **(optional or {})},
            "required": sorted(fields),
            "additionalProperties": False,
        },
        description,
    )


def table(values: Schema, description: str = "") -> Schema:
    """An object with any names, whose values are alike."""
    return _described({"type": "object", "additionalProperties": values}, description)


def array(items: Schema, description: str = "", *, most: int | None = None) -> Schema:
    """A list; ``most``: how long it may be."""
    bound = {} if most is None else {"maxItems": most}
    return _described({"type": "array", "items": items, **bound}, description)


def text(description: str = "", *choices: str) -> Schema:
    """A text, or one of the choices."""
    return _described({"type": "string", **({"enum": [*choices]} if choices else {})}, description)


def whole(description: str = "", least: int | None = 0, most: int | None = None) -> Schema:
    """A whole number."""
    bounds = {"minimum": least, "maximum": most}
    return _described(
        {"type": "integer", **{k: v for k, v in bounds.items() if v is not None}}, description
    )


def number(description: str = "") -> Schema:
    """A number."""
    return _described({"type": "number"}, description)


def flag(description: str = "") -> Schema:
    """True or false."""
    return _described({"type": "boolean"}, description)


def time(description: str = "") -> Schema:
    """An instant in UTC, to the second."""
    return _described({"type": "string", "format": "date-time"}, description)


def maybe(schema: Schema) -> Schema:
    """That, or null: not known, or not so."""
    if isinstance(schema.get("type"), str) and "enum" not in schema:
        return {**schema, "type": [schema["type"], "null"]}
    return {"anyOf": [schema, {"type": "null"}]}


def _described(schema: dict[str, Any], description: str) -> Schema:
    return {**schema, "description": description} if description else schema
