"""Models of GPUs that stand side by side in one fleet: those of profiles, and their kin."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from simulator.profile import Profile, load_profile

NAME = "nvmlDeviceGetName()"
A100, H100 = "hgx-a100", "hgx-h100"
# H200 has more memory and idles at 75 to 85 W; H800 and A800 have eight of the links' lanes.
LINKS_800 = 8


def others(count: int) -> tuple[Profile, ...]:
    """As many models beside the H100, at most four.

    >>> [profile.name for profile in others(2)]
    ['hgx-a100', 'hgx-h200']
    """
    return tuple(profile for profile, _ in zip(_kin(), range(count), strict=False))


def _kin() -> Iterator[Profile]:
    a100, h100 = load_profile(A100), load_profile(H100)
    yield a100
    h200 = replace(h100.gpu, memory_mib=143_771, idle_w=80.0)
    yield _named(replace(h100, name="hgx-h200", gpu=h200), "NVIDIA H200")
    for name, base, title in (
        ("hgx-h800", h100, "NVIDIA H800"),
        ("hgx-a800", a100, "NVIDIA A800-SXM4-80GB"),
    ):
        links = replace(base.nvlink, links=LINKS_800)
        yield _named(replace(base, name=name, nvlink=links), title)


def _named(profile: Profile, title: str) -> Profile:
    return replace(profile, answers={**profile.answers, NAME: title})
