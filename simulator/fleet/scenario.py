"""Scenarios: what happens to a simulated fleet, read from scenarios/<id>.toml and checked whole."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args, get_type_hints

from pipeline.finding import Severity
from simulator.fleet.settings import Settings
from simulator.fleet.truth import EntityKind, Secondary, Where

FOLDER = Path(__file__).parent.parent / "scenarios"
Split = Literal["dev", "test"]
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Parameter:
    """One number of a scenario: its nominal value, the values of its sweep, and the ranges that
    cases are drawn from, by split.

    Ranges of ``test`` hold those of ``dev`` and go beyond them: at their edges nothing was tuned.
    ``log`` draws evenly over orders of magnitude.
    """

    nominal: float
    dev: tuple[float, float]
    test: tuple[float, float]
    sweep: tuple[float, ...] = ()
    log: bool = False
    whole: bool = False

    def span(self, split: Split) -> tuple[float, float]:
        """The range of a split."""
        return self.dev if split == "dev" else self.test


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a fault should be called, how loudly, of what, and within how
    many seconds of its onset.
    """

    fault: str
    severity: Severity
    entity: EntityKind
    detect_by_s: float
    secondary: tuple[Secondary, ...] = ()


@dataclass(frozen=True, slots=True)
class Alone:
    """What an agent alone can say of a fault whose verdict needs the fleet: how loudly, and within
    how many seconds of its onset.
    """

    severity: Severity
    detect_by_s: float


@dataclass(frozen=True, slots=True)
class Scenario:
    """One scenario.

    ``cases`` faults in ``nodes`` nodes of eight GPUs over ``days``; healthy ones have none.

    ``magnitude`` names the parameter that is swept, empty where none is. ``scope`` is what must be
    known to tell the fault: one ``node`` or the whole ``fleet``; ``alone`` is what one node's agent
    says of it all the same. ``switch_ports``: frames also hold the leaf switches' ends of the links
    (needs the fleet's view).
    """

    id: str
    kind: Literal["fault", "healthy"]
    family: str
    text: str
    nodes: int
    days: float
    scope: Literal["node", "fleet"]
    cases: int = 0
    magnitude: str = ""
    switch_ports: bool = False
    verdict: Verdict | None = None
    alone: Alone | None = None
    parameters: Mapping[str, Parameter] = field(default_factory=dict)
    world: Settings = field(default_factory=Settings)

    @property
    def known_to_an_agent(self) -> bool:
        """Whether an agent alone is asked for it."""
        return self.scope == "node" or self.alone is not None

    @property
    def swept(self) -> Parameter | None:
        """The parameter whose value is a case's magnitude."""
        return self.parameters[self.magnitude] if self.magnitude else None


def scenario_ids() -> tuple[str, ...]:
    """All scenarios, faults first."""
    return tuple(sorted(file.stem for file in FOLDER.glob("*.toml")))


def load_scenario(name: str, folder: Path = FOLDER) -> Scenario:
    """A scenario by id.

    ValueError names the file and the key that is wrong, or lists the scenarios there are.
    """
    file = folder / f"{name}.toml"
    if "/" in name or not file.is_file():
        raise ValueError(f"no scenario {name!r}; there are {', '.join(scenario_ids())}")
    try:
        table = tomllib.loads(file.read_text())
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"{file.name}: {error}") from error
    parameters = {
        key: _parameter(value, f"{file.name}: [parameters.{key}]")
        for key, value in _pop(table, "parameters").items()
    }
    verdict, alone = _pop(table, "verdict"), _pop(table, "alone")
    secondary = tuple(
        _secondary(text, f"{file.name}: [verdict] secondary")
        for text in verdict.pop("secondary", [])
    )
    world = _build(Settings, _pop(table, "world"), f"{file.name}: [world]")
    scenario = _build(
        Scenario,
        {
            **table,
            "id": name,
            "parameters": parameters,
            "world": world,
            "verdict": _build(
                Verdict, {**verdict, "secondary": secondary}, f"{file.name}: [verdict]"
            )
            if verdict
            else None,
            "alone": _build(Alone, alone, f"{file.name}: [alone]") if alone else None,
        },
        file.name,
    )
    _check(scenario, file.name)
    return scenario


def _check(scenario: Scenario, where: str) -> None:
    if (scenario.kind == "fault") != (scenario.verdict is not None and scenario.cases > 0):
        raise ValueError(
            f"{where}: a fault needs cases and [verdict], a healthy scenario has neither"
        )
    if scenario.alone is not None and (scenario.verdict is None or scenario.scope != "fleet"):
        raise ValueError(f"{where}: [alone] is for a fault whose verdict needs the fleet")
    if scenario.magnitude and scenario.magnitude not in scenario.parameters:
        raise ValueError(f"{where}: magnitude {scenario.magnitude!r} is no parameter")


def _pop(table: dict[str, Any], key: str) -> dict[str, Any]:
    section: dict[str, Any] = table.pop(key, {})
    return section


def _parameter(value: dict[str, Any], where: str) -> Parameter:
    parameter = _build(
        Parameter, {k: tuple(v) if isinstance(v, list) else v for k, v in value.items()}, where
    )
    for split in ("dev", "test"):
        low, high = parameter.span(split)
        if not low <= high:
            raise ValueError(f"{where}: {split} must be [low, high], not {[low, high]}")
    return parameter


def _secondary(text: str, where: str) -> Secondary:
    fault, _, place = text.partition("@")
    if place not in get_args(Where):
        raise ValueError(f"{where}: {text!r} must be class@{'|'.join(get_args(Where))}")
    return Secondary(fault, place)  # type: ignore[arg-type] # checked above


def _build(cls: type[_T], values: Mapping[str, Any], where: str) -> _T:
    """An instance of a dataclass from a table: names, plain types and words are checked."""
    wanted = get_type_hints(cls)
    names = {f.name: f for f in fields(cls)}  # type: ignore[arg-type] # only dataclasses come here
    for key in values:
        if key not in names:
            raise ValueError(f"{where}: unknown key {key!r}")
    plain = {key: _plain(wanted[key], value, f"{where}: {key}") for key, value in values.items()}
    for key, f in names.items():
        if key not in values and f.default is MISSING and f.default_factory is MISSING:
            raise ValueError(f"{where}: missing key {key!r}")
    return cls(**plain)


def _plain(kind: Any, value: Any, where: str) -> Any:
    origin = getattr(kind, "__origin__", None)
    if origin is Literal and value not in get_args(kind):
        raise ValueError(
            f"{where} must be one of {', '.join(map(str, get_args(kind)))}, not {value!r}"
        )
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if kind in {str, int, float, bool} and type(value) is not kind:
        raise ValueError(f"{where} must be {kind.__name__}, not {value!r}")
    if origin is tuple:
        if not isinstance(value, tuple):
            raise ValueError(f"{where} must be a list, not {value!r}")
        return tuple(float(v) if isinstance(v, int) else v for v in value)
    return value
