"""Faults in words: what is understood, and what a mistake is told."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.faults import FAULTS
from simulator.injection import faults_help, inject, parse
from simulator.profile import load_profile
from tests.simulator.nodes import node

H100 = load_profile("hgx-h100")


@pytest.mark.parametrize(
    ("spec", "targets", "delay_s", "params"),
    [
        ("ecc_storm@gpu3+60s", [3], 60, {}),
        ("xid@gpu2:code=79", [2], 0, {"code": 79}),
        ("link_flap@mlx5_4+10s:down=30s,times=5", [4], 10, {"down": 30.0, "times": 5}),
        ("pcie_replay@gpu*", list(range(8)), 0, {}),
        ("ecc_sbe@gpu1,gpu5+1.5m:count=3", [1, 5], 90, {"count": 3}),
        ("symbol_errors@mlx5_0/1:ber=1e-12,ramp=2h", [0], 0, {"ber": 1e-12, "ramp": 7200.0}),
        ("remap@gpu0:state=failed", [0], 0, {"state": "failed"}),
        ("oom_kill", [None], 0, {}),
        ("driver_unload@node+500ms", [None], 0.5, {}),
        (" power_brake@gpu0 ", [0], 0, {}),
    ],
)
def test_specs_are_understood(
    spec: str, targets: list[int | None], delay_s: float, params: dict[str, object]
) -> None:
    """Name, targets, delay and parameters each come out as meant."""
    found = parse(spec, H100)
    assert found.fault.name == spec.strip().partition("@")[0].partition("+")[0]
    assert [number for _, number in found.targets] == targets
    assert found.delay_s == pytest.approx(delay_s)
    assert found.params == params


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("", "no fault ''.*there are xid"),
        ("melt@gpu1", "no fault 'melt'.*ecc_storm"),
        ("xid", "no target ''.*gpu0 to gpu7"),
        ("xid@gpu8", "no target 'gpu8'.*gpu0 to gpu7"),
        ("xid@gpu1,,gpu2", "no target ''"),
        ("link_flap@gpu1", "no target 'gpu1' for link_flap.*mlx5_0 to mlx5_7"),
        ("oom_kill@gpu1", "oom_kill concerns the whole node"),
        ("xid@gpu1+soon", "delay of .* not 'soon'"),
        ("xid@gpu1+-5s", "delay of"),
        ("xid@gpu1:code", "no parameter 'code'.*name=value"),
        ("xid@gpu1:cod=79", "no parameter 'cod'.*code, count"),
        ("xid@gpu1:code=seventy", "code of .* whole number, not 'seventy'"),
        ("remap@gpu1:state=broken", "state of .* one of pending, exhausted, failed"),
        ("symbol_errors@mlx5_1:ber=1e99", "ber of .* up to 1e\\+09"),
        ("symbol_errors@mlx5_1:ber=nan", "ber of"),
        ("driver_hang@gpu1:call=" + "x" * 65, "call of .* 64 printable"),
        ("oom_kill:name=a\nb", "name of .* 64 printable"),
        ("xid@gpu1" + "x" * 2000, "at most 1000"),
    ],
)
def test_mistakes_are_told_with_what_there_is(spec: str, message: str) -> None:
    """The message names the wrong part and lists what would be right."""
    with pytest.raises(ValueError, match=message):
        parse(spec, H100)


@pytest.mark.slow
@given(st.text(max_size=80))
def test_no_text_breaks_the_parser(text: str) -> None:
    """Whatever is typed is understood or refused with a ValueError."""
    try:
        parse(text, H100)
    except ValueError:
        return
    assert parse(text, H100).fault.name in FAULTS


def test_a_refused_fault_leaves_the_node_alone() -> None:
    """Nothing is scheduled when one of several targets is wrong."""
    idle = node()
    with pytest.raises(ValueError, match="no target"):
        inject(idle, "xid@gpu1,gpu99:code=79")
    assert idle.active == []


def test_a_fault_waits_for_its_time() -> None:
    """Nothing happens before the delay has passed, and then it happens."""
    idle = node()
    inject(idle, "xid@gpu2+10s:code=79")
    idle.advance(9.5)
    assert idle.events == []
    idle.advance(1)
    assert [(gpu, code) for gpu, _, code, _, _ in idle.events] == [(2, 79)]


def test_the_list_explains_every_fault_and_parameter() -> None:
    """``--list`` shows each fault with its sentence and each parameter with default and meaning."""
    text = faults_help()
    for fault in FAULTS.values():
        assert fault.help in text
        assert fault.help.endswith(".")
        for name, parameter in fault.parameters.items():
            assert f"{name}={parameter.default}" in text
            assert parameter.help in text


@pytest.mark.slow
@pytest.mark.parametrize("extreme", ["0", "999999999"])
@pytest.mark.parametrize("name", FAULTS)
def test_extreme_parameters_do_not_break_the_node(name: str, extreme: str) -> None:
    """Every number a person can type leaves a node that goes on, finite everywhere."""
    fault = FAULTS[name]
    target = {"gpu": "@gpu1", "port": "@mlx5_1", "node": ""}[fault.target]
    numbers = ",".join(
        f"{p}={extreme}" for p, parameter in fault.parameters.items() if parameter.type is not str
    )
    idle = node()
    inject(idle, f"{name}{target}:{numbers}" if numbers else name + target)
    idle.advance(3)
    assert all(map(float.__lt__, idle.gpus.power_w.tolist(), [1e4] * 8))
