"""Files written by others, with nothing of ours but the reference page, are
replayed and asked like our own.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from pipeline.replay import replay
from pipeline.store.query.canned import QUESTIONS
from pipeline.store.query.store import Store, Window

HOUR = "date=2027-01-15/hour=08"
TIME = 1_800_000_000_000_000  # us
BEGIN = {"host": "n7", "boot_id": "b", "mono_ns": 5, "seq": 3}


def put(root: Path, table: str, rows: list[dict[str, Any]], types: dict[str, pa.DataType]) -> None:
    """A plain file: default encodings, columns in any order, ints where ours are."""
    folder = root / table / HOUR
    folder.mkdir(parents=True)
    types = {
        "time": pa.timestamp("us", tz="UTC"),
        "mono_ns": pa.int64(),
        "seq": pa.int64(),
        **types,
    }
    columns = {
        name: pa.array([row[name] for row in rows], types.get(name))
        for name in reversed(list(rows[0]))
    }
    whole = pa.table(columns).replace_schema_metadata({"tocsin.table": table, "tocsin.format": "1"})
    pq.write_table(whole, folder / "other-n7-b-0000000000000003.parquet")


def test_a_read_written_by_hand_is_an_observation(tmp_path: Path) -> None:
    """Frames, slow facts, events; values above 2^53 and what is missing."""
    moment = datetime.fromtimestamp(TIME / 1e6, UTC)
    frames = json.dumps([["ib_port", 2, TIME, 5]])
    read = {
        "time": moment,
        "device": "n7",
        "source": "infiniband",
        "duration_ns": 9,
        "outcome": "ok",
        "error": "",
        "unread": "[]",
    }
    put(tmp_path, "reads", [{**BEGIN, **read, "frames": frames}], {"duration_ns": pa.int64()})
    ports = [
        {
            **BEGIN,
            "time": moment,
            "device": f"0x{i}",
            "row": i,
            "sampled_ns": 0,
            "state": 4,
            "receive_words": words,
        }
        for i, words in enumerate((2**60 + 1, None))
    ]
    put(
        tmp_path,
        "ib_port",
        ports,
        {
            "row": pa.int32(),
            "sampled_ns": pa.int64(),
            "state": pa.int64(),
            "receive_words": pa.uint64(),
        },
    )
    facts = [
        {
            **BEGIN,
            "time": moment,
            "device": f"0x{i}",
            "kind": "ib_port",
            "source": "infiniband",
            "attributes": json.dumps({"port": str(i)}),
        }
        for i in range(2)
    ]
    put(tmp_path, "devices", facts, {})
    event = {
        "n": 0,
        "device_kind": "ib_port",
        "kind": "link_down",
        "attributes": '{"driver": "x"}',
        "device_attributes": '["n7", {}]',
    }
    put(
        tmp_path, "events", [{**BEGIN, "time": moment, "device": "0x0", **event}], {"n": pa.int32()}
    )

    ((observation, findings),) = replay(tmp_path)
    (frame,) = observation.frames
    assert (observation.source, observation.host, observation.seq, findings) == (
        "infiniband",
        "n7",
        3,
        (),
    )
    assert [(d.id, d.attributes["port"]) for d in frame.devices] == [("0x0", "0"), ("0x1", "1")]
    assert [frame.value("receive_words", row) for row in range(2)] == [2**60 + 1, None]
    assert frame.value("state", 0) == 4.0
    assert [(e.kind, e.device.id, e.attributes["driver"]) for e in observation.events] == [
        ("link_down", "0x0", "x")
    ]
    asked = Store(tmp_path)
    assert QUESTIONS["links"].ask(asked, Window())["state"].to_list() == ["active", "active"]
    assert asked.left_out == []
