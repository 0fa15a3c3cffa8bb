"""How many pages are true, at the rate at which hardware really breaks and in
the mix in which it does.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

# Unexpected interruptions per GPU-month: 419 in 54 days of 16,384 GPUs (The Llama 3 Herd of Models,
# arXiv 2407.21783, table 5).
BASE_RATE = 0.0142

# Cause -> (how often, the scenarios that represent it; none: the suite does not cover it).
Mix = Mapping[str, tuple[int, tuple[str, ...]]]

# The InfiniteHBD production trace (arXiv 2502.03885): 584 node faults of 400
# nodes of 8 GPUs in 349 days.
INFINITE_HBD: Mix = {
    "double-bit ECC errors": (60, ("F02", "F03", "F04", "F05")),
    "GPU, unknown": (48, ()),
    "PCIe width": (25, ("F18",)),
    "XID": (11, ("F07", "F09")),
    "nvidia-smi timeout": (9, ("F29",)),
    "GPU lost": (5, ("F06",)),
    "cable": (40, ("F19", "F20", "F21", "F23")),
    "fan": (33, ("F10",)),
    "NIC": (30, ("F28",)),
    "power supply": (26, ("F14",)),
    "stress test failed": (97, ()),
    "unknown and other": (200, ()),
}

# Llama 3, table 5.
LLAMA_3: Mix = {
    "faulty GPU": (148, ("F06", "F07", "F09")),
    "HBM3 memory": (72, ("F02", "F03", "F04")),
    "network switch or cable": (35, ("F19", "F20", "F21", "F23")),
    "SRAM memory": (19, ("F05",)),
    "NIC": (7, ("F28",)),
    "NCCL watchdog timeout": (7, ("F25",)),
    "silent data corruption": (6, ("F30",)),
    "GPU thermal interface and sensor": (6, ("F10", "F11")),
    "power supply": (3, ("F14",)),
    "software, hosts, maintenance, other": (116, ()),
}

MIXES: Mapping[str, Mix] = {"infinite_hbd": INFINITE_HBD, "llama_3": LLAMA_3}


def mixed_recall(recall: Mapping[str, float], mix: Mix) -> tuple[float | None, float]:
    """Recall over a mix of causes: (of the causes that were scored, of all causes with the
    others taken as missed).

    A cause has the mean recall of the scenarios that represent it and were scored. The
    first is None where none was.

    >>> mixed_recall({"F1": 1.0, "F2": 0.5}, {"a": (10, ("F1", "F2")), "b": (30, ())})
    (0.75, 0.1875)
    """
    found = scored = 0.0
    for weight, scenarios in mix.values():
        known = [recall[s] for s in scenarios if s in recall]
        if known:
            scored += weight
            found += weight * sum(known) / len(known)
    return (found / scored if scored else None), found / sum(weight for weight, _ in mix.values())


def precision(
    recall: float | None, false_per_gpu_month: float, base_rate: float = BASE_RATE
) -> float | None:
    """Share of alarms that are true: ``rate*R / (rate*R + FA)``; None without a recall, or where
    there is no alarm at all.

    >>> round(precision(0.9, 0.0014), 2)
    0.9
    """
    if recall is None or recall * base_rate + false_per_gpu_month == 0:
        return None
    return recall * base_rate / (recall * base_rate + false_per_gpu_month)


def precisions(recall: Mapping[str, float], rate: float, high95: float) -> dict[str, Any]:
    """Precision at the base rate for each mix, as JSON, with the false-alarm rate seen
    and with its upper bound.
    """
    made: dict[str, Any] = {"base_rate_per_gpu_month": BASE_RATE}
    for name, mix in MIXES.items():
        scored, of_all = mixed_recall(recall, mix)
        made[name] = {
            "recall_of_scored_causes": scored,
            "recall_of_all_causes": of_all,
            "precision": precision(scored, rate),
            "precision_at_high95": precision(scored, high95),
            "precision_of_all_causes_at_high95": precision(of_all, high95),
        }
    return made
