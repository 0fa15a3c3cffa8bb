"""What each detector in shadow mode lacks to leave it: what must be shown, of what, how often.

The bar is that of detectors/paging.py: on unseen seeds, as installed, a lower 95 % bound of at
least 0.9 of its cases in time, no false page in 2,000 healthy GPU-months, and few false tickets,
in worlds of another author too. The numbers are in docs/scores.md, What may alert.
"""

from __future__ import annotations

from collections.abc import Mapping

_HISTORY = "the history of a real fleet, replayed (`tocsin backtest`), as it learns what is normal"

MISSING: Mapping[str, str] = {
    "starvation": (
        "nothing that pages: it advises the owner of a job, whose waits are no fault of a device. "
        f"To be a ticket it needs recall of what a job waits for (F80 to F82), and {_HISTORY}."
    ),
    "slow_node": (
        "recall of an agent alone on nodes that run 10 % slow (F55), as it waits for equal load "
        "where load comes and goes, and for clocks that wander less. A gateway has a job's other "
        "nodes to compare with."
    ),
    "outlier": "a class of fault that it alone finds: so far other detectors find the same.",
    "fec_tail": (
        "recall of tails under tides, noise and steps (F48), most of which it finds late; and the "
        "history of a real NVLink 5 or PAM4 link, of which none was seen."
    ),
    "power_cap": (
        "recall within 15 minutes (F47), most others are found later; and few false tickets in "
        "worlds of another author."
    ),
    "thermal_imminent": (
        "a count of its own: it warns of what `throttle` pages, and its lead was not scored."
    ),
    "thermal_rack": (
        "a rack, which an agent alone does not see, and a rise of 0.25 K a minute, which it does "
        f"not find; {_HISTORY}."
    ),
    "ib_congestion": (
        "nothing that pages: it informs. To be a ticket it needs a fabric whose congestion is "
        "a fault to its operators."
    ),
    "drift": "a site that declares what is wanted: what most devices have is not always right.",
    "waste": "a site's consent: an idle GPU is a matter of use, not of health.",
}
