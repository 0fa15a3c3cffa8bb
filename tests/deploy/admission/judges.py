"""Who judges a write by the policy: Google's implementation of CEL, or Kubernetes' own plugin."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

from cel_expr_python import cel
from cel_expr_python.ext.ext_optional import ExtOptional

from pipeline import child
from tests.deploy.admission.writes import Write
from tests.deploy.manifests import Manifest
from tests.parts import built
from tests.wait import PATIENCE_S

DEFINITIONS = "kubernetes-json-schema/v1.36.0-local/_definitions.json"
ROOT = "io.k8s.api.core.v1.Node"
QUANTITY = "io.k8s.apimachinery.pkg.api.resource.Quantity"


@cache
def _environment() -> cel.Env:
    names = ("object", "oldObject", "request", "variables")
    return cel.NewEnv(variables=dict.fromkeys(names, cel.Type.DYN), extensions=[ExtOptional()])


def _answer(expression: str, data: dict[str, Any]) -> Any:
    """What an expression gives; ValueError where it cannot be evaluated."""
    value = _environment().compile(expression).eval(data=data)
    if value.type() == cel.Type.ERROR:
        raise ValueError(f"{expression}: {value.value()}")
    return value.plain_value()


def by_cel(policy: Manifest, write: Write) -> str:
    """Why a policy refuses a write, "" where it does not; as the API server goes through it
    (kubernetes.io, "Validating Admission Policy").
    """
    spec = policy["spec"]
    if not _meets(spec["matchConstraints"], write):
        return ""
    user: dict[str, Any] = {"username": write.user}
    if write.extra:
        user["extra"] = dict(write.extra)
    data = {
        "object": write.new,
        "oldObject": write.old,
        "request": {"operation": "UPDATE", "name": write.old["metadata"]["name"], "userInfo": user},
        "variables": {},
    }
    try:
        if not all(_answer(one["expression"], data) for one in spec["matchConditions"]):
            return ""
        for variable in spec["variables"]:
            data["variables"][variable["name"]] = _answer(variable["expression"], data)
        refused = [
            one for one in spec["validations"] if _answer(one["expression"], data) is not True
        ]
    except ValueError as error:
        return f"failed: {error}" if spec["failurePolicy"] == "Fail" else ""
    return str(refused[0]["message"]) if refused else ""


def _meets(constraints: dict[str, Any], write: Write) -> bool:
    """Whether a write is of an operation and a resource that the policy is about."""
    resource = "/".join(filter(None, (write.resource, write.subresource)))
    return any(
        "UPDATE" in rule["operations"] and resource in rule["resources"] and "" in rule["apiGroups"]
        for rule in constraints["resourceRules"]
    )


class Plugin(NamedTuple):
    """What Kubernetes' plugin says: warnings of its type checker, then one verdict per write."""

    warnings: list[str]
    verdicts: list[str]

    def wrong(self, writes: Sequence[Write]) -> list[tuple[str, str]]:
        """Writes whose verdict is not the expected one, with it."""
        return [
            (write.tries, verdict)
            for write, verdict in zip(writes, self.verdicts, strict=True)
            if write.refused not in verdict or bool(verdict) != bool(write.refused)
        ]


def by_kubernetes(
    folder: Path, policy: Manifest, binding: Manifest, writes: Sequence[Write]
) -> Plugin:
    """The same by the code that runs in kube-apiserver (main.go)."""
    asked = {
        "policy": policy,
        "binding": binding,
        "schema": _schema(ROOT),
        "writes": [
            {
                "resource": write.resource,
                "subresource": write.subresource,
                "user": write.user,
                "extra": write.extra,
                "old": write.old,
                "new": write.new,
            }
            for write in writes
        ],
    }
    file = folder / "asked.json"
    file.write_text(json.dumps(asked), encoding="utf-8")
    program = built("admission", "admission_part.sh")
    done = child.run([program, str(file)], timeout_s=PATIENCE_S)
    assert done.returncode == 0, done.stderr.decode()
    return Plugin(**json.loads(done.stdout))


@cache
def _definitions() -> dict[str, Any]:
    text = (files("kubernetes_validate") / DEFINITIONS).read_text(encoding="utf-8")
    found: dict[str, Any] = json.loads(text)["$defs"]
    return found


def _schema(name: str) -> dict[str, Any]:
    """Kubernetes' schema of a type with all that it refers to in its place, as the type checker
    takes it: one type per value.
    """
    if name == QUANTITY:
        return {"type": "string"}
    made: dict[str, Any] = _inlined(_definitions()[name])
    return made


def _inlined(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_inlined(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    if "$ref" in schema:
        return _schema(schema["$ref"].rpartition("/")[2])
    kept = {key: _inlined(value) for key, value in schema.items() if key != "description"}
    if isinstance(kept.get("type"), list):
        kept["type"] = next(kind for kind in kept["type"] if kind != "null")
    return kept
