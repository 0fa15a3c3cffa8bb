"""The OpenAPI document, made from the registry of operations."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from http import HTTPStatus
from typing import Any

from collector.version import VERSION
from gateway.api import paging, problem
from gateway.api.operation import Operation
from gateway.api.parameters import Parameter
from gateway.api.schema import COMPONENTS, Schema

PATH = "/api/v1/openapi.json"
# What the server answers to any request, before an operation is asked (collector/web/policy.py).
ALWAYS = {
    401: "no password, or a wrong one, where the web configuration has users",
    403: "the web configuration shows this user its own jobs, and this is more (`web.tenants`)",
    413: "a body where none belongs",
    429: "more requests than the web configuration allows, or passwords to check",
}
OWN = {
    400: "a parameter or a body that is wrong; `parameter` names it. As text: a request line or a "
    "header that is too long",
    500: "a fault of the gateway, which its log has",
    503: "as many requests are waiting as may; `Retry-After` says for how long",
}
BODIES = {
    413: "a body that is too large",
    415: "a body that is not JSON, or is compressed",
}
_TEXT = {"schema": {"type": "string"}}
INFO = {
    "title": "Tocsin gateway",
    "version": VERSION,
    "description": "The cluster as the gateway judges it: read only, from memory.",
    "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
}


def document(operations: Iterable[Operation]) -> dict[str, Any]:
    """OpenAPI 3.1."""
    paths: dict[str, dict[str, Any]] = {}
    for operation in operations:
        paths.setdefault(operation.path, {})[operation.method.lower()] = _operation(operation)
    paths[PATH] = {
        "get": {
            "operationId": "openapi",
            "summary": "This document",
            "responses": {
                **_answer("application/json", {"type": "object"}, versioned=True),
                **_refusals({**ALWAYS, 400: OWN[400]}),
            },
        }
    }
    return {
        "openapi": "3.1.0",
        "info": INFO,
        "servers": [{"url": "/"}],
        "security": [{}, {"basic": []}, {"mutualTLS": []}],
        "paths": paths,
        "components": {
            "schemas": dict(sorted(COMPONENTS.items())),
            "responses": {
                _name(status, why): _refusal(status, why)
                for each in (ALWAYS, OWN, BODIES)
                for status, why in sorted(each.items())
            },
            "securitySchemes": {
                "basic": {
                    "type": "http",
                    "scheme": "basic",
                    "description": "`basic_auth_users` of the web configuration",
                },
                "mutualTLS": {
                    "type": "mutualTLS",
                    "description": "`client_ca_file` of the web configuration",
                },
            },
        },
    }


def _operation(operation: Operation) -> dict[str, Any]:
    made: dict[str, Any] = {
        "operationId": operation.id,
        "summary": operation.summary,
        "description": operation.text,
        "responses": {
            **_answer(operation.media, operation.answer, versioned=operation.version is not None),
            **_refusals({**ALWAYS, **OWN, **(BODIES if operation.body else {}), **_own(operation)}),
        },
    }
    if operation.parameters:
        made["parameters"] = [_parameter(each) for each in operation.parameters]
    if operation.body is not None:
        made["requestBody"] = {
            "required": True,
            "description": f"At most {operation.body.max_bytes >> 20} MiB.",
            "content": {
                "application/json": {
                    "schema": operation.body.schema,
                    "example": operation.body.example,
                }
            },
        }
    return made


def _own(operation: Operation) -> dict[int, str]:
    """Refusals of this operation, and of those that answer in pages."""
    own = dict(operation.refusals)
    if any(each in paging.PARAMETERS for each in operation.parameters):
        own[404] = "; ".join(filter(None, (own.get(404), paging.UNKNOWN)))
    return own


def _parameter(parameter: Parameter) -> dict[str, Any]:
    return {
        "name": parameter.name,
        "in": parameter.where,
        "required": parameter.required,
        "description": parameter.text,
        "schema": parameter.schema(),
    }


def _answer(media: str, schema: Schema, *, versioned: bool) -> dict[str, Any]:
    made: dict[str, Any] = {
        "200": {"description": "the answer", "content": {media: {"schema": schema}}}
    }
    if versioned:
        made["200"]["headers"] = {"ETag": {"schema": {"type": "string"}}}
        made["304"] = {"description": "it is what `If-None-Match` names"}
    return made


def _refusals(refusals: Mapping[int, str]) -> dict[str, Any]:
    """Those that are alike everywhere, by reference."""
    alike = {**ALWAYS, **OWN, **BODIES}
    return {
        str(status): {"$ref": f"#/components/responses/{_name(status, why)}"}
        if alike.get(status) == why or ALWAYS.get(status) == why
        else _refusal(status, why)
        for status, why in sorted(refusals.items())
    }


def _name(status: int, why: str) -> str:
    return f"Refused{status}{'OfBody' if BODIES.get(status) == why else ''}"


def _refusal(status: int, why: str) -> dict[str, Any]:
    text = ALWAYS.get(status) == why
    made: dict[str, Any] = {
        "description": why,
        "content": {"text/plain": _TEXT} if text else {problem.MEDIA: {"schema": problem.PROBLEM}},
    }
    if status == HTTPStatus.BAD_REQUEST:  # by the server's own parser
        made["content"]["text/plain"] = _TEXT
    if status == HTTPStatus.SERVICE_UNAVAILABLE:
        made["headers"] = {"Retry-After": {"schema": {"type": "integer"}}}
    return made
