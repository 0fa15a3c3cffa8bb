"""The faults that can be injected, by name.

A fault is a generator: it acts, and yields how many seconds until it acts again.

One line here makes a new fault known to ``--inject``, ``--list`` and the tests.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal, get_type_hints

from simulator.faults import driver, fabric, gpu, job

TargetKind = Literal["gpu", "port", "node"]


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of a fault: its plain type (int, float, str), the choices of a
    Literal, default and help.
    """

    type: type
    default: int | float | str
    help: str
    choices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault as people name it: what it acts on, what it takes, and what
    it does in one sentence.
    """

    name: str
    target: TargetKind
    help: str
    parameters: Mapping[str, Parameter]
    start: Callable[..., Iterator[float]]


def _fault(target: TargetKind, function: Callable[..., Iterator[float]]) -> Fault:
    hints = get_type_hints(function, include_extras=True)
    parameters = {}
    for name, parameter in inspect.signature(function).parameters.items():
        if parameter.kind is parameter.KEYWORD_ONLY:
            plain, (text, *_) = hints[name].__origin__, hints[name].__metadata__
            choices = getattr(plain, "__args__", ()) if plain not in (int, float, str) else ()
            parameters[name] = Parameter(
                str if choices else plain, parameter.default, text, choices
            )
    sentence = " ".join((function.__doc__ or "").split())
    return Fault(function.__name__, target, sentence, parameters, function)


_BY_TARGET: dict[TargetKind, tuple[Callable[..., Iterator[float]], ...]] = {
    "gpu": (
        gpu.xid,
        gpu.ecc_sbe,
        gpu.ecc_dbe,
        gpu.ecc_storm,
        gpu.remap,
        gpu.sram_threshold,
        gpu.thermal,
        gpu.power_brake,
        gpu.power_limit,
        gpu.slow_clock,
        gpu.pcie_narrow,
        gpu.pcie_replay,
        fabric.nvlink_errors,
        fabric.nvlink_down,
        fabric.nvlink_fabric,
        driver.gpu_lost,
        driver.driver_hang,
        driver.driver_crash,
        job.nccl_stall,
    ),
    "port": (
        fabric.symbol_errors,
        fabric.link_flap,
        fabric.link_down,
        fabric.counter_saturated,
        fabric.nic_lost,
        fabric.nic_narrow,
    ),
    "node": (
        driver.driver_unload,
        driver.passthrough,
        fabric.fabric_manager,
        job.host_stall,
        job.oom_kill,
        job.ras_manner,
    ),
}

FAULTS: Mapping[str, Fault] = {
    f.__name__: _fault(target, f) for target, fs in _BY_TARGET.items() for f in fs
}

__all__ = ["FAULTS", "Fault", "Parameter", "TargetKind"]
