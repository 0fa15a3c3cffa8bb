"""Three questions on one node-day, beside Prometheus, VictoriaMetrics and DuckDB: CPU of
each, after equal answers.

Q1: increase of twelve ECC counters per GPU. Q2: five-minute means of one GPU's temperature. Q3: the
ten of 64 ports with most symbol errors. Servers are asked over HTTP, one warm call and fifteen
measured, idle burn taken off; ours and DuckDB open, plan and read each time, on one thread. The day
is the yardstick's (``DAY=folder`` takes the store of one that was written before); symbol errors of
the 64 ports are drawn at rates from 10^-5.5 to 10^-2 per second.
"""

# ruff: noqa: S608 - the texts are ours

from __future__ import annotations

import os

os.environ["POLARS_MAX_THREADS"] = "1"

import platform
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa

from benchmarks import _yardstick
from benchmarks._peers import (
    Peer,
    Series,
    create_blocks,
    import_json,
    milliseconds,
    prometheus,
    settle,
    victoria,
    write_openmetrics,
)
from benchmarks._yardstick import ECC
from pipeline.store.files.columns import of_sources
from pipeline.store.files.merge import GROUP_ROWS
from pipeline.store.files.parquet import Writer, conform
from pipeline.store.files.schema import schema
from pipeline.store.query.increase import increases
from pipeline.store.query.store import Store, Window
from tests.node_day import DAY_S, MIDNIGHT_NS

CALLS = 15
PORTS = 64
# of Prometheus, of VictoriaMetrics
GOALS = {"Q1": (0.15, 1.4), "Q2": (1.5, None), "Q3": (0.15, 1.4)}
DAY = Window()
Answer = dict[Any, float]


def main() -> int:
    """Print CPU per question and ratios; 1 where a goal is missed."""
    pa.set_cpu_count(1)
    print(
        f"Python {platform.python_version()}, polars {pl.__version__}, pyarrow {pa.__version__}, "
        f"duckdb {duckdb.__version__}"
    )
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        _yardstick.compacted(root / "node")
        _ports(root / "ports")
        gpu = (
            Store(root / "node")
            .table("gpu")
            .select("device")
            .unique()
            .sort("device")
            .collect()["device"][3]
        )
        ours: dict[str, Callable[[], Answer]] = {
            "Q1": lambda: _q1(root / "node"),
            "Q2": lambda: _q2(root / "node", gpu),
            "Q3": lambda: _q3(root / "ports"),
        }
        theirs = _duckdb(root, gpu)
        cpu = {
            name: {"ours": _process(ask), "DuckDB": _process(theirs[name])}
            for name, ask in ours.items()
        }
        answers = {name: ask() for name, ask in ours.items()}
        for name, ask in theirs.items():
            _same(name, answers[name], ask(), tolerance=1e-9)
        write_openmetrics(_series(root), root / "day.txt")
        create_blocks(root / "day.txt", root / "blocks")
        (root / "day.txt").unlink()
        with prometheus(root / "blocks") as peer:
            _measure(peer, "Prometheus", gpu, answers, cpu)
        with victoria(root / "victoria") as peer:
            import_json(peer, _series(root))
            _measure(peer, "VictoriaMetrics", gpu, answers, cpu)
    return _report(cpu)


def _report(cpu: dict[str, dict[str, float]]) -> int:
    missed = 0
    for name, by in cpu.items():
        print(f"{name}  " + "  ".join(f"{who} {ms:.1f} ms" for who, ms in by.items()))
        for goal, peer in zip(GOALS[name], ("Prometheus", "VictoriaMetrics"), strict=True):
            if goal is not None:
                ratio = by["ours"] / by[peer]
                missed += ratio > goal
                print(
                    f"    {ratio:.2f}x {peer}, goal {goal}: "
                    f"{'met' if ratio <= goal else 'MISSED'}; DuckDB "
                    f"{by['DuckDB'] / by[peer]:.2f}x"
                )
    return int(missed > 0)


def _ports(root: Path) -> None:
    """64 ports of eight nodes as a cluster's compactor would leave them:
    sorted, row groups of one port.
    """
    path = root / "ib_port" / "date=2027-01-15" / "cluster-all-day-0001.parquet"
    path.parent.mkdir(parents=True)
    with Writer(
        "ib_port", path, of_sources("ib_port", [pa.schema([("symbol_errors", pa.uint64())])])
    ) as file:
        for number, (host, device, values) in enumerate(_errors()):
            for start in range(0, DAY_S, GROUP_ROWS):
                n = min(GROUP_ROWS, DAY_S - start)
                seq = np.arange(start, start + n)
                columns: dict[str, Any] = {
                    "time": MIDNIGHT_NS // 1000 + seq * 1_000_000,
                    "mono_ns": seq * 10**9,
                    "seq": seq,
                }
                columns |= {
                    "row": np.full(n, number % 8),
                    "sampled_ns": np.zeros(n, np.int64),
                    "symbol_errors": values[start : start + n],
                }
                names = {"host": host, "device": device, "boot_id": f"boot-{host}"}
                text = {
                    name: pa.array([word]).dictionary_encode().take(np.zeros(n, np.int64))
                    for name, word in names.items()
                }
                types = {name: schema("ib_port").field(name).type for name in columns}
                made = {name: pa.array(value).cast(types[name]) for name, value in columns.items()}
                file.write(conform(pa.table(text | made), "ib_port"))


def _errors() -> Iterator[tuple[str, str, Any]]:
    rng = np.random.default_rng(5)
    for number in range(PORTS):
        rate = 10 ** rng.uniform(-5.5, -2)
        yield (
            f"n{number // 8}",
            f"0x{number:04x}",
            np.cumsum(rng.random(DAY_S) < rate).astype(np.uint64),
        )


def _q1(root: Path) -> Answer:
    rows = increases(Store(root), "gpu", ECC, DAY)
    return {
        row["device"]: float(max(row[name] or 0 for name in ECC))
        for row in rows.iter_rows(named=True)
    }


def _q2(root: Path, gpu: str) -> Answer:
    rows = Store(root).table("gpu", Window(devices=(gpu,)))
    means = rows.group_by(pl.col("time").dt.truncate("5m")).agg(
        pl.col("temperature_celsius").mean()
    )
    return {int(time.timestamp()): value for time, value in means.collect().rows()}


def _q3(root: Path) -> Answer:
    top = increases(Store(root), "ib_port", ["symbol_errors"], DAY).top_k(10, by="symbol_errors")
    return {device: float(value) for _, device, value in top.rows()}


def _duckdb(root: Path, gpu: str) -> dict[str, Callable[[], Answer]]:
    """The same questions as strangers ask our files: increases as the last value less the first,
    right where nothing was reset.
    """
    rise = ", ".join(f"max({name}) - min({name})" for name in ECC)
    texts = {
        "Q1": (
            f"SELECT device, greatest({rise})::DOUBLE FROM "
            f"'{root}/node/gpu/*/*.parquet' GROUP BY device"
        ),
        "Q2": (
            "SELECT (epoch_us(time) // 300000000) * 300, avg(temperature_celsius) FROM "
            f"'{root}/node/gpu/*/*.parquet' WHERE device = '{gpu}' GROUP BY ALL"
        ),
        "Q3": (
            "SELECT device, (max(symbol_errors) - min(symbol_errors))::DOUBLE AS n FROM "
            f"'{root}/ports/ib_port/*/*.parquet' GROUP BY device ORDER BY n DESC LIMIT 10"
        ),
    }
    return {name: lambda text=text: _duck(text) for name, text in texts.items()}  # type: ignore[misc] # bound in the loop


def _duck(text: str) -> Answer:
    with duckdb.connect(config={"threads": 1}) as db:
        return dict(db.execute(text).fetchall())


def _series(root: Path) -> Iterator[Series]:
    """What the three questions ask of."""
    for one in _yardstick.series(root / "node", [*ECC, "temperature_celsius"]):
        counter = one.name.removeprefix("gpu_")
        if counter in ECC:
            yield replace(one, name="gpu_ecc", labels={**one.labels, "counter": counter})
        else:
            yield one
    times = milliseconds(MIDNIGHT_NS // 1000 + np.arange(DAY_S) * 1_000_000)
    for host, device, values in _errors():
        yield Series("ib_symbol_error", {"host": host, "port": device}, times, values)


def _measure(
    peer: Peer, name: str, gpu: str, answers: dict[str, Answer], cpu: dict[str, dict[str, float]]
) -> None:
    """CPU of the server per question, its answers being ours."""
    end = (milliseconds(MIDNIGHT_NS // 1000) + DAY_S * 1000) / 1000
    begin = end - DAY_S
    questions: dict[str, Callable[[], Answer]] = {
        "Q1": lambda: _by(peer.ask("max by (gpu) (increase(gpu_ecc[1d]))", at_s=end), "gpu"),
        "Q2": lambda: _range(
            peer.ask(
                f'avg_over_time(gpu_temperature_celsius{{gpu="{gpu}"}}[5m])',
                at_s=end,
                start=f"{begin + 300}",
                end=f"{end}",
                step="300",
            )
        ),
        "Q3": lambda: _by(peer.ask("topk(10, increase(ib_symbol_error[1d]))", at_s=end), "port"),
    }
    settle(peer)
    for question, ask in questions.items():
        # increase() extrapolates to the window's edges, and the five minutes of a
        # step end where ours begin.
        _same(
            f"{name} {question}",
            answers[question],
            ask(),
            tolerance=0.02 if question != "Q2" else 0.2,
        )
        idle = _burn(peer, 3.0)
        began, clock = peer.cpu_s(), time.perf_counter()
        for _ in range(CALLS):
            ask()
        passed = time.perf_counter() - clock
        cpu[question][name] = (peer.cpu_s() - began - idle * passed) / CALLS * 1000


def _burn(peer: Peer, seconds: float) -> float:
    began = peer.cpu_s()
    time.sleep(seconds)
    return (peer.cpu_s() - began) / seconds


def _process(ask: Callable[[], Answer]) -> float:
    """Least CPU milliseconds of this process per call, after a warm one."""
    ask()
    spent = []
    for _ in range(CALLS):
        began = time.process_time()
        ask()
        spent.append(time.process_time() - began)
    return min(spent) * 1000


def _by(result: list[dict[str, Any]], label: str) -> Answer:
    return {one["metric"][label]: float(one["value"][1]) for one in result}


def _range(result: list[dict[str, Any]]) -> Answer:
    shift = (MIDNIGHT_NS // 10**6 - milliseconds(MIDNIGHT_NS // 1000)) // 1000
    return {round(at) + shift - 300: float(value) for at, value in result[0]["values"]}


def _same(name: str, ours: Answer, theirs: Answer, *, tolerance: float) -> None:
    """Equal answers, up to what the other side rounds."""
    common = ours.keys() & theirs.keys()
    assert len(common) >= 0.9 * len(ours), (
        f"{name}: {len(common)} of {len(ours)} rows are in both answers"
    )
    for key in common:
        assert abs(ours[key] - theirs[key]) <= max(
            tolerance * abs(ours[key]), 0.05 if tolerance > 1e-3 else 0
        ), f"{name}: {key}: {ours[key]} here, {theirs[key]} there"


if __name__ == "__main__":
    sys.exit(main())
