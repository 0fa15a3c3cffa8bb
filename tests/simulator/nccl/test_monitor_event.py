"""Events of the fake MONITOR stream are those of NCCL, byte for byte."""

from __future__ import annotations

import json
import re

from simulator.nccl.job import Peer
from simulator.nccl.monitor_event import MonitorEvent, render_event
from tests.collector.sources.nccl.recordings import reply


def test_json_events_are_those_of_nccl() -> None:
    """The recorded stream, taken apart and put together."""
    text = reply("kill_monitor.json").decode()
    rest, made = text.removeprefix("OK\nOK\n"), "OK\nOK\n"
    decoder = json.JSONDecoder()
    while rest:
        found, end = decoder.raw_decode(rest)
        rest = rest[end:].lstrip("\n")
        peer = found["peer"]
        who = (
            peer["addr"]
            if "addr" in peer
            else Peer(peer["host"], peer["pid"], tuple(peer["cuda_devs"]))
        )
        made += render_event(
            MonitorEvent(found["event"], who, found["details"]), found["timestamp"], as_json=True
        )
    assert made == text


def test_text_events_are_those_of_nccl() -> None:
    """With the blank at the end where there are no details."""
    text = reply("kill_monitor_best.txt").decode()
    made = "OK\n"
    for line in text.splitlines()[1:]:
        match = re.fullmatch(
            r"\[(.{19})\] (\w+): (?:Process (\d+) on node (\S+) managing GPU (\d+)|(\S+)) (.*)",
            line,
        )
        assert match
        who = match[6] or Peer(match[4], int(match[3]), (int(match[5]),))
        made += render_event(MonitorEvent(match[2], who, match[7]), match[1], as_json=False)
    assert made == text
