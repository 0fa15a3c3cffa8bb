"""Faults in words: ``name@target[,target][+delay][:param=value,...]``, as the command line and the
control socket take them.

``ecc_storm@gpu3+60s``, ``xid@gpu2:code=79``, ``link_flap@mlx5_4+10s:down=30s,times=5``,
``pcie_replay@gpu*``, ``oom_kill``.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Any

from simulator.faults import FAULTS, Fault, Parameter
from simulator.node import Node
from simulator.profile import Profile

MAX_BYTES = 1000
MAX_NUMBER = 1e9  # no rate or duration beyond it means anything
_SPEC = re.compile(
    r"(?P<name>[^@+:]*)(?:@(?P<targets>[^+:]*))?(?:\+(?P<delay>[^:]*))?(?::(?P<params>.*))?",
    re.DOTALL,
)
_NUMBER = re.compile(r"([0-9.]+(?:[eE][-+]?[0-9]+)?)(ms|s|m|h|d)?")
_SECONDS = {None: 1.0, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


@dataclass(frozen=True, slots=True)
class Injection:
    """A fault with its targets (numbers of GPUs or ports, none for the node), delay
    in seconds and parameters.
    """

    spec: str
    fault: Fault
    targets: tuple[tuple[str, int | None], ...]
    delay_s: float
    params: dict[str, Any]


def parse(spec: str, profile: Profile) -> Injection:
    """Understand a fault for a node of this profile.

    ValueError names the part that is wrong and what there is.
    """
    if len(spec) > MAX_BYTES:
        raise ValueError(f"fault of {len(spec)} characters: at most {MAX_BYTES}")
    match = _SPEC.fullmatch(spec.strip())
    fault = FAULTS.get(match["name"]) if match else None
    if match is None or fault is None:
        raise ValueError(
            f"no fault {match['name'] if match else spec!r} (in {spec!r}); there are "
            f"{', '.join(FAULTS)}"
        )
    return Injection(
        spec.strip(),
        fault,
        _targets(fault, match["targets"], profile, spec),
        0.0 if match["delay"] is None else _seconds(match["delay"], f"delay of {spec!r}"),
        _parameters(fault, match["params"], spec),
    )


def inject(node: Node, spec: str) -> Injection:
    """Understand a fault and let it act on a node.

    ValueError as ``parse``; then nothing was injected.
    """
    injection = parse(spec, node.profile)
    for name, number in injection.targets:
        course = injection.fault.start(
            node, *(() if number is None else (number,)), **injection.params
        )
        node.schedule(injection.spec, name, injection.delay_s, course)
    return injection


def faults_help() -> str:
    """Every fault with its parameters, for ``--list``."""
    lines = [
        (
            "NAME@TARGET[,TARGET][+DELAY][:PARAM=VALUE,...]   targets: gpu0, gpu*, mlx5_3, mlx5_*; "
            "durations: 500ms, 30s, 5m, 2h"
        ),
        "",
    ]
    for fault in FAULTS.values():
        where = {"gpu": "@gpuN", "port": "@mlx5_N", "node": ""}[fault.target]
        lines.append(f"{fault.name}{where}")
        lines.append(f"    {fault.help}")
        for name, parameter in fault.parameters.items():
            kind = "|".join(parameter.choices) if parameter.choices else parameter.type.__name__
            lines.append(f"    {name}={parameter.default}  ({kind}) {parameter.help}")
        lines.append("")
    return "\n".join(lines)


def _targets(
    fault: Fault, text: str | None, profile: Profile, spec: str
) -> tuple[tuple[str, int | None], ...]:
    if fault.target == "node":
        if text not in (None, "", "node"):
            raise ValueError(
                f"{fault.name} concerns the whole node and takes no target, not "
                f"{text!r} (in {spec!r})"
            )
        return (("node", None),)
    names = (
        [f"gpu{i}" for i in range(profile.gpu.count)]
        if fault.target == "gpu"
        else list(profile.ports.devices)
    )
    prefix = "gpu" if fault.target == "gpu" else names[0].rstrip("0123456789")
    found: dict[str, int | None] = {}
    for target in (text or "").split(","):
        wanted = target.strip().removesuffix("/1")
        if wanted == f"{prefix}*":
            found |= {name: i for i, name in enumerate(names)}
        elif wanted in names:
            found[wanted] = names.index(wanted)
        else:
            raise ValueError(
                f"no target {target.strip()!r} for {fault.name} (in {spec!r}); there are "
                f"{names[0]} to {names[-1]} and {prefix}*"
            )
    return tuple(found.items())


def _parameters(fault: Fault, text: str | None, spec: str) -> dict[str, Any]:
    params: dict[str, Any] = {}
    for part in text.split(",") if text else ():
        name, equals, value = part.partition("=")
        parameter = fault.parameters.get(name.strip())
        if parameter is None or not equals:
            known = ", ".join(fault.parameters) or "none"
            raise ValueError(
                f"{fault.name} has no parameter {name.strip()!r} (in {spec!r}); there are "
                f"{known}; write name=value"
            )
        params[name.strip()] = _value(parameter, value.strip(), f"{name.strip()} of {spec!r}")
    return params


def _value(parameter: Parameter, text: str, where: str) -> int | float | str:
    if parameter.choices:
        if text not in parameter.choices:
            raise ValueError(f"{where} must be one of {', '.join(parameter.choices)}, not {text!r}")
        return text
    if parameter.type is str:
        if not re.fullmatch(r"[ -~]{1,64}", text):
            raise ValueError(f"{where} must be 1 to 64 printable ASCII characters, not {text!r}")
        return text
    if parameter.type is float:
        return _seconds(text, where)
    if not re.fullmatch(r"-?[0-9]{1,9}", text):
        raise ValueError(f"{where} must be a whole number, not {text!r}")
    return int(text)


def _seconds(text: str, where: str) -> float:
    match = _NUMBER.fullmatch(text.strip())
    try:
        number = float(match[1]) * _SECONDS[match[2]] if match else math.nan
    except ValueError:
        number = math.nan
    if not number <= MAX_NUMBER:
        raise ValueError(
            f"{where} must be a number such as 0.5, 1e-12, 30s, 5m or 2h, up to "
            f"{MAX_NUMBER:g}, not {text!r}"
        )
    return number
