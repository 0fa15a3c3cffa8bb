"""Profiles are read strictly: a mistake names its file and key."""

from __future__ import annotations

from pathlib import Path

import pytest

from simulator.profile import FOLDER, load_profile, profile_names


def test_the_promised_profiles_exist() -> None:
    """HGX H100 (whole and split), A100, B200 and GB200 come with the simulator."""
    assert {"hgx-h100", "hgx-h100-mig", "hgx-a100", "hgx-b200", "gb200"} <= set(profile_names())


@pytest.mark.parametrize("name", profile_names())
def test_every_profile_loads_and_is_consistent(name: str) -> None:
    """GPUs have distinct PCI addresses, limits in order, and margins below the operating limit."""
    profile = load_profile(name)
    assert len(set(profile.gpu.pci) | set(profile.ports.pci)) == profile.gpu.count + len(
        profile.ports.devices
    )
    assert profile.gpu.idle_w < profile.gpu.power_min_w < profile.gpu.power_limit_w
    assert profile.gpu.shutdown_margin_c < profile.gpu.slowdown_margin_c < 0
    assert profile.gpu.clock_idle_mhz < profile.gpu.clock_max_mhz


def test_a_derived_profile_overrides_key_by_key() -> None:
    """A profile with a base states only what differs."""
    whole, split = load_profile("hgx-h100"), load_profile("hgx-h100-mig")
    assert split.gpu == whole.gpu
    assert split.mig
    assert not whole.mig


def test_an_unknown_profile_lists_those_there_are() -> None:
    """The message helps to spell it right."""
    with pytest.raises(ValueError, match=r"no profile 'dgx'.*hgx-h100"):
        load_profile("dgx")


@pytest.mark.parametrize(
    ("was", "becomes", "message"),
    [
        ("r_th = 0.055", "", "missing key 'r_th'"),
        ("r_th = 0.055", 'r_th = "hot"', "r_th must be float"),
        ("gpm = true", "gpm = 1", "gpm must be bool"),
        ("tau_s = 45.0", "tau_s = 45.0\nfans = 3", "unknown key 'fans'"),
        ("numa = [0, 0, 0, 0, 1, 1, 1, 1]", "numa = [0]", "numa must have 8 entries"),
        ("[nvlink]", "[nvlinks]", r"\[nvlink\] is missing"),
        ("[host]", "[host", "hgx-h100.toml"),
    ],
)
def test_a_mistake_in_a_profile_is_named(
    tmp_path: Path, was: str, becomes: str, message: str
) -> None:
    """Unknown, missing and mistyped keys, wrong lengths and bad TOML are
    refused with their place.
    """
    text = (FOLDER / "hgx-h100.toml").read_text()
    assert was in text
    (tmp_path / "hgx-h100.toml").write_text(text.replace(was, becomes, 1))
    with pytest.raises(ValueError, match=message):
        load_profile("hgx-h100", tmp_path)
