"""What each detector in shadow mode lacks to leave it: what must be shown, of what, how often.

The bar is that of detectors/paging.py: on unseen seeds, as installed, a lower 95 % bound of at
least 0.9 of its cases in time, no false page in 2,000 healthy GPU-months, and few false tickets,
in worlds of another author too.
"""

from __future__ import annotations

from collections.abc import Mapping

_HISTORY = "the history of a real fleet, replayed (`tocsin backtest`), as it learns what is normal"

MISSING: Mapping[str, str] = {
    "starvation": (
        "nothing that pages: it advises the owner of a job, whose waits are no fault of a device. "
        "To be a ticket it needs recall of what a job waits for (797 of 1,050 as an agent alone), "
        f"and {_HISTORY}."
    ),
    "slow_node": (
        "recall of an agent alone: 168 of 209 nodes that run 10 % slow (F55) within 20 minutes, as "
        "it waits for equal load where load comes and goes, and for clocks that wander less. A "
        "gateway, which has a job's other nodes to compare with, found 207 of 209 in 10 minutes."
    ),
    "outlier": "a class of fault that it alone finds: so far other detectors find the same.",
    "fec_tail": (
        "recall: of 210 tails under tides, noise and steps (F48) it found 125 in 30 hours and 174 "
        "in three days; and the history of a real NVLink 5 or PAM4 link, of which none was seen."
    ),
    "power_cap": (
        "recall: 103 of 175 within 15 minutes (F47), most others later; and few false tickets in "
        "worlds of another author (8 in 159 GPU-months)."
    ),
    "thermal_imminent": (
        "a count of its own: it warns of what `throttle` pages, and its lead was not scored."
    ),
    "thermal_rack": (
        "a rack, which an agent alone does not see, and a slow rise of 0.25 K a minute (0 of 70); "
        f"{_HISTORY}."
    ),
    "ib_congestion": (
        "nothing that pages: it records. To be a ticket it needs a fabric whose congestion "
        "somebody wants to know of."
    ),
    "drift": "a site that declares what is wanted: what most devices have is not always right.",
    "waste": "a site's consent: an idle GPU is a matter of use, not of health.",
}
