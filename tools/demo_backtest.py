"""`make demo-backtest`: fills a real Prometheus with a simulated month of a site, asks `tocsin
backtest` what it would have alerted on, and leaves the report.

The site has two nodes with eight GPUs each behind dcgm-exporter and node_exporter, scraped every
minute, rules of its own, and a scheduler that drains nodes some hours after something broke.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
from demo_terminal import refuse, say

from simulator.fleet import Run, Truth, load_scenario, render
from simulator.fleet.faults import FAULTS
from simulator.fleet.plan import Draws, Plan
from tests.history.recorded import serving
from tests.history.simulated_site import Scraper, SimulatedSite

# One after the other on a quiet site: what default fields show at a minute's interval.
SCENARIOS = ("F06", "F04", "F05", "F18", "F19", "F09")
NODES, STEP_S, SEED = 2, 60.0, 21
# promtool reads its file once for each block: a file is one block. A day is no length of a block:
# they are three times as long from level to level, from two hours on (tsdb/compact.go).
BLOCK_HOURS = 18
PART_S = BLOCK_HOURS * 3600
METRICS = frozenset(
    {
        *("DCGM_FI_DEV_SM_CLOCK", "DCGM_FI_DEV_GPU_TEMP", "DCGM_FI_DEV_POWER_USAGE"),
        *("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", "DCGM_FI_DEV_PCIE_REPLAY_COUNTER"),
        *("DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_DEV_FB_USED", "DCGM_FI_DEV_ROW_REMAP_FAILURE"),
        *("DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS", "DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS"),
        *("node_infiniband_state_id", "node_infiniband_rate_bytes_per_second"),
        *("node_infiniband_link_downed_total", "node_infiniband_symbol_error_total"),
        *("node_infiniband_port_errors_received_total",),
        *("node_infiniband_port_packets_received_total",),
    }
)
"""Of dcgm-exporter and node_exporter: a month of all of them takes longer than two minutes."""


def main() -> int:
    """Fill, judge, say where the report is."""
    args = _arguments()
    for program in ("prometheus", "promtool"):
        if shutil.which(program) is None:
            return refuse(
                "demo-backtest", f"no {program}: on Debian, install the package prometheus"
            )
    folder = args.folder.absolute()
    if folder.exists() and not (folder / "backtest-demo").is_file() and any(folder.iterdir()):
        return refuse(
            "demo-backtest", f"{folder} holds something else. Choose another: DEMO=.demo2"
        )
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    (folder / "backtest-demo").touch()
    began = time.monotonic()
    run = month(args.days)
    say(f"a simulated site of {NODES} nodes with {8 * NODES} GPUs, {args.days:g} days:")
    for truth in run.truth:
        day = (truth.onset_ns - run.topology.begin_ns) / 86_400e9
        say(f"  day {day:4.1f}  {truth.fault} on {_host(truth)}")
    samples = fill(run, folder)
    say(f"{samples:,} samples are in Prometheus' blocks after {time.monotonic() - began:.0f} s")
    tickets(run, folder / "tickets.csv")
    with serving(folder / "data", folder) as url:
        code = backtest(url, run, folder)
    say(f"done after {time.monotonic() - began:.0f} s; the report: {folder / 'report.html'}")
    return code


def month(days: float) -> Run:
    """A site's time with several faults, one scenario after the other on the same fleet."""
    base = render(load_scenario("H00"), SEED, step_s=STEP_S, days=days, nodes=NODES)
    truths, courses = list(base.truth), list(base._courses)  # noqa: SLF001 - several scenarios in one run
    for number, name in enumerate(SCENARIOS):
        scenario = replace(load_scenario(name), days=days, nodes=NODES, cases=1)
        rng = np.random.default_rng([SEED, number])
        plan = Plan(scenario, base.topology, rng, draws=Draws("dev", "nominal"), step_s=STEP_S)
        FAULTS[name](plan)
        truths += plan.finished()
        courses += plan.processes
    return replace(base, truth=tuple(sorted(truths, key=lambda t: t.onset_ns)), _courses=courses)


def fill(run: Run, folder: Path) -> int:
    """Blocks of all that the exporters showed; how many samples.

    Written by processes beside the one that simulates.
    """
    count = 0
    work = folder / "openmetrics"
    work.mkdir()
    workers = os.cpu_count() or 1
    with ProcessPoolExecutor(workers) as blocks:
        made: list[Future[None]] = []
        for begin_s, site in parts(run, Scraper(METRICS)):
            beside(run, site, begin_s)
            count += sum(len(times) for _, times, _ in site.series)
            made.append(blocks.submit(_create, site, work / f"{begin_s}.om", folder / "data"))
            while len(made) > 2 * workers:
                made.pop(0).result()
        for one in made:
            one.result()
    return count


def parts(run: Run, scraper: Scraper) -> Iterator[tuple[int, SimulatedSite]]:
    """The site in the time of each block, with the block's begin, unix time in s."""
    begin_s = -1
    for observation in run.observations():
        block = observation.time_ns // 10**9 // PART_S * PART_S
        if block > begin_s >= 0:
            yield begin_s, scraper.site()
            scraper.forget()
        begin_s = block
        scraper.take(observation)
    yield begin_s, scraper.site()


def beside(run: Run, site: SimulatedSite, begin_s: int) -> None:
    """What the site's own rules and its scheduler say in this block: a rule on XIDs, and a drain
    some hours after each fault.
    """
    run_s = run.topology.begin_ns // 10**9
    first, last = max(begin_s, run_s), min(begin_s + PART_S, run_s + round(run.seconds))
    times = range(first * 1000, last * 1000, 60_000)
    xids = [(labels, at, values) for labels, at, values in site.series if _is_xid(labels)]
    for labels, at, values in xids:
        if values.any():
            fired = {"__name__": "ALERTS", "alertname": "GpuXid", "alertstate": "firing"}
            where = {"Hostname": labels["Hostname"], "gpu": labels["gpu"]}
            site.add({**fired, **where}, at[values > 0].tolist(), [1.0] * int((values > 0).sum()))
    for host in {_host(truth) for truth in run.truth}:
        spans = [_drained(truth) for truth in run.truth if _host(truth) == host]
        cordoned = [float(any(a <= ms < z for a, z in spans)) for ms in times]
        name = {"__name__": "kube_node_spec_unschedulable", "node": host, "job": "ksm"}
        site.add(name, times, cordoned)


def _is_xid(labels: object) -> bool:
    return isinstance(labels, dict) and labels["__name__"] == "DCGM_FI_DEV_XID_ERRORS"


def _drained(truth: Truth) -> tuple[int, int]:
    """From when to when its node is cordoned, unix ms: noticed after one to eight hours, by the
    hour of the day, and back a shift later.
    """
    hour = truth.onset_ns // (3600 * 10**9) % 8
    begin = truth.onset_ns // 10**6 + (1 + hour) * 3_600_000
    return begin, begin + 8 * 3_600_000


def _host(truth: Truth) -> str:
    return next((one.host for one in truth.members if one.host), "") or getattr(
        truth.entity, "host", ""
    )


def tickets(run: Run, path: Path) -> None:
    """Some of the faults have a ticket."""
    rows = ["node,opened,closed,cause"]
    for truth in run.truth[::2]:
        opened = truth.onset_ns // 10**9 + 4 * 3600
        rows.append(f"{_host(truth)},{opened},{opened + 2 * 86_400},{truth.fault}")
    path.write_text("\n".join(rows) + "\n")


def backtest(url: str, run: Run, folder: Path) -> int:
    """The command as a user types it."""
    begin = run.topology.begin_ns // 10**9
    argv = ["backtest", "--prometheus", url, "--keep", str(folder / "history")]
    argv += ["--since", str(np.datetime64(begin, "s")) + "Z"]
    argv += ["--until", str(np.datetime64(begin + round(run.seconds), "s")) + "Z"]
    argv += ["--known", str(folder / "tickets.csv"), "-o", str(folder / "report.html")]
    argv += ["--write", str(folder / "tocsin.yaml")]
    argv += ["--workers", str(min(os.cpu_count() or 1, NODES))]
    say(f"tocsin {' '.join(argv)}")
    program = "import sys; from collector.cli import main; sys.exit(main(sys.argv[1:]))"
    return subprocess.run([sys.executable, "-c", program, *argv], check=False).returncode


def _create(site: SimulatedSite, path: Path, data: Path) -> None:
    path.write_text(site.text())
    command = ["promtool", "tsdb", "create-blocks-from", "openmetrics"]
    command += [f"--max-block-duration={BLOCK_HOURS}h", str(path), str(data)]
    subprocess.run(command, check=True, capture_output=True)
    path.unlink()


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, default=Path(".demo-backtest"))
    parser.add_argument("--days", type=float, default=30.0)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
