"""``python -m benchmarks.learning [WHAT..]``: the tables with and without learning, measured again
and written to docs/learning.json. Worlds that are in ``.learning`` are not rendered again.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.learning import measure_calibration, measure_nightly
from benchmarks.learning.measure_nightly import Fleet
from benchmarks.learning.worlds import World, cached

FOLDER = Path(".learning")
TARGET = Path("docs/learning.json")
SEED, UNSEEN = 11, 111
FITTED_ON = tuple(
    World(name, "dev", SEED, 32, days, cases)
    for name, days, cases in (
        ("H42", 2.0, 0), ("F26", 1.0, 10), ("H40", 2.0, 0), ("H14", 2.0, 0), ("F28", 1.0, 8),
        ("H17", 1.0, 0), ("F29", 1.0, 10), ("H47", 1.0, 0), ("F50", 2.0, 8), ("H13", 0.5, 0),
        ("F08", 1.5, 5),
    )
)  # fmt: skip
HELD_OUT = tuple(
    World(name, "test", UNSEEN, 32, days, cases)
    for name, days, cases in (
        ("F29", 1.0, 10), ("H42", 1.0, 0), ("F08", 1.5, 5), ("H17", 1.0, 0), ("F28", 1.0, 8),
        ("H14", 1.0, 0), ("H40", 1.0, 0),
    )
)  # fmt: skip

# Days, cases, magnitude and seconds between readings of fleets that are listed: roll-ups of
# quarters are means, of which a reading a minute or five says the same.
LISTED: dict[str, tuple[float, int, str | float, float]] = {
    "F11": (12.0, 8, "range", 120.0),
    "F31": (30.0, 4, "nominal", 300.0),
    "F16": (6.0, 8, 0.05, 120.0),
    "F30": (6.0, 8, 0.075, 120.0),
}
LISTED_SEEDS = (211, 212)


def calibration(folder: Path) -> dict[str, Any]:
    """Of incidents of both sets of worlds."""
    found = [
        {world.file: cached(world, folder) for world in worlds} for worlds in (FITTED_ON, HELD_OUT)
    ]
    fitted_on, held_out = ({name: one for name, (one, _) in worlds.items()} for worlds in found)
    return {
        "fitted_on": sorted(fitted_on),
        "held_out": sorted(held_out),
        "gpu_months": sum(months for _, months in found[1].values()),
        "rows": measure_calibration.table(fitted_on, held_out),
    }


def nightly(_folder: Path) -> list[dict[str, Any]]:
    """Of ageing, lemons, and what no detector finds: half of the nominal magnitude."""
    rows: list[dict[str, Any]] = []
    for name, (days, cases, magnitude, step_s) in LISTED.items():
        fleets = {
            f"{name}-{seed}": measure_nightly.watched(
                Fleet(name, seed, days, cases, magnitude, step_s)
            )
            for seed in LISTED_SEEDS
        }
        rows += measure_nightly.rows_of(name, fleets)
    return rows


MEASURES = {"calibration": calibration, "nightly": nightly}


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure what is named, or everything."""
    parser = argparse.ArgumentParser(prog="benchmarks.learning", description=__doc__)
    parser.add_argument("what", nargs="*", metavar="WHAT", help=", ".join(MEASURES))
    parser.add_argument("--worlds", type=Path, default=FOLDER, help="what was rendered is here")
    parser.add_argument("--json", type=Path, default=TARGET)
    args = parser.parse_args(arguments)
    unknown = set(args.what) - set(MEASURES)
    if unknown:
        parser.error(f"unknown: {', '.join(sorted(unknown))}; there are {', '.join(MEASURES)}")
    document = json.loads(args.json.read_bytes()) if args.json.exists() else {}
    for name in args.what or MEASURES:
        document[name] = MEASURES[name](args.worlds)
    text = json.dumps(document, indent=1, allow_nan=False)
    args.json.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
