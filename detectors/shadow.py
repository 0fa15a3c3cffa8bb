"""What each detector in shadow mode lacks to leave it: what must be shown, of what, how often.

The bar is that of detectors/paging.py: on unseen seeds, as installed, a lower 95 % bound of at
least 0.9 of its cases in time and no false page in 2,000 healthy GPU-months; and, for what learns a
baseline, the history of a real fleet.
"""

from __future__ import annotations

from collections.abc import Mapping

_HISTORY = "the history of a real fleet, replayed (`tocsin backtest`), as it learns what is normal"
_NODE_CASES = "200 cases as an agent alone sees them"

MISSING: Mapping[str, str] = {
    "frozen": (
        "200 cases of F29 at horizon node on a real driver: in the simulated one all values freeze "
        "at once, and drivers that repeat single fields are not among the scenarios."
    ),
    "straggler": (
        f"{_NODE_CASES} (it has 9, all in time), and {_HISTORY}. Losses of 5 % are not found."
    ),
    "slow_node": (
        "200 cases of F55 in wide worlds at horizon fleet, 0 false pages of H47 in 2,000 healthy "
        f"GPU-months, and {_HISTORY}. An agent alone gives tickets only. It is silent where "
        "several jobs share the node, and at the power limit where GPUs have no activity counters "
        "(A100)."
    ),
    "starvation": (
        "nothing that pages: it advises the owner of a job, whose waits are no fault of a device. "
        f"To be a ticket it needs {_HISTORY}."
    ),
    "outlier": "a class of fault that it alone finds: so far other detectors find the same.",
    "fec_tail": (
        "recall: of 12 tails under tides, noise and steps (F48) it found 2 in 30 hours and 7 in "
        "three days, with 3 false tickets in 51 healthy GPU-months (H51); and the "
        "history of a real NVLink 5 or PAM4 link, of which none was seen."
    ),
    "power": (
        f"{_NODE_CASES} (it has 2), and {_HISTORY}. Half the magnitude is below its limit of 10 % "
        "(0 of 229)."
    ),
    "power_cap": f"{_NODE_CASES} (F47), and {_HISTORY}.",
    "thermal_resistance": (
        f"{_HISTORY}, over weeks: the fault takes days. At half magnitude it finds 40 of 70."
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
    "ib_errors": (
        "200 cases of F49 at horizon node, and of each counter on real adapters: what the rarer "
        "ones count differs by firmware."
    ),
    "ib_rail": f"{_NODE_CASES} (it has 3), and {_HISTORY}.",
    "ib_saturation": (
        "200 cases at horizon node (it has 2); all 111 of F22 were found by the fleet as tickets, "
        "and a ticket is what it deserves."
    ),
    "drift": "a site that declares what is wanted: what most devices have is not always right.",
    "waste": "a site's consent: an idle GPU is a matter of use, not of health.",
}
