"""The jobs behind the recordings, rebuilt from the recorded JSON."""

from __future__ import annotations

import json
import re
from typing import Any

from simulator.nccl.job import OPERATIONS, Comm, Job, Life, Peer, Seat
from tests.collector.sources.nccl.recordings import reply


def job_of(name: str) -> Job:
    """The job of a recorded JSON report."""
    document = json.loads(reply(name))
    peers: dict[tuple[str, int], Peer] = {}
    comms = [_comm(entry, peers) for entry in document["communicators"]]
    ras = document["ras"]
    job = Job(
        list(peers.values()), comms, document["nccl_version"], document["cuda_runtime_version"]
    )
    job.collection_s, job.timeouts = ras["collection_time_sec"], ras["timeouts_count"]
    return job


def without_time(text: str) -> str:
    """A report whose moment does not matter: seconds and timestamp masked."""
    return re.sub(
        r"\(\d+\.(\d+)s\)",
        lambda m: f"(0.{'0' * len(m[1])}s)",
        re.sub(r'"timestamp": "[^"]*"', '"timestamp": ""', text),
    )


def _comm(entry: dict[str, Any], peers: dict[tuple[str, int], Peer]) -> Comm:
    high, low = (int(part, 16) for part in entry["secondary_hash"].split(":"))
    seats: dict[int, Seat] = {}
    for given in [*entry["ranks"], *entry["missing_ranks"]]:
        peer = peers.setdefault(
            (given["host"], given["pid"]), Peer(given["host"], given["pid"], (given["cuda_dev"],))
        )
        seats[given["rank"]] = _seat(given, peer)
    return Comm(int(entry["hash"], 16), (high, low), [seats[rank] for rank in sorted(seats)])


def _seat(given: dict[str, Any], peer: Peer) -> Seat:
    status = given["status"]
    if "unresponsive" in status:
        lives: dict[tuple[bool, bool], Life] = {
            (True, False): "unresponsive",
            (True, True): "dead",
            (False, False): "alive",
        }
        peer.life = lives[status["unresponsive"], status["considered_dead"]]
        return Seat(peer, given["cuda_dev"], left=peer.life == "alive")
    return Seat(
        peer,
        given["cuda_dev"],
        status["init_state"],
        status["async_error"],
        status["finalize_called"],
        status["destroy_flag"],
        status["abort_flag"],
        counts=[given["collective_counts"][operation] for operation in OPERATIONS],
    )
