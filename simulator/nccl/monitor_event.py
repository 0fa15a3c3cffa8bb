"""One event of RAS's MONITOR stream, byte for byte, in text and JSON."""

from __future__ import annotations

import json
from dataclasses import dataclass

from simulator.nccl.job import Peer
from simulator.nccl.text_reply import process_words

LIFECYCLE = ("PEER_NEW", "PEER_DEAD")


@dataclass(frozen=True, slots=True)
class MonitorEvent:
    """``peer`` is a process, or the address of a connection that has not introduced itself."""

    name: str
    peer: Peer | str
    details: str = ""

    @property
    def group(self) -> str:
        """Lifecycle or trace."""
        return "lifecycle" if self.name in LIFECYCLE else "trace"


def render_event(event: MonitorEvent, timestamp: str, *, as_json: bool) -> str:
    """The event as it is sent; ``timestamp`` is local time, ``YYYY-mm-dd HH:MM:SS``."""
    peer = event.peer
    if not as_json:
        return (
            f"[{timestamp}] {event.name}: "
            f"{peer if isinstance(peer, str) else process_words(peer)} {event.details}\n"
        )
    if isinstance(peer, str):
        who = f'    "addr": {json.dumps(peer)}\n'
    else:
        nvml = list(peer.nvml or peer.gpus)
        who = (
            f'    "host": {json.dumps(peer.host)},\n    "pid": {peer.pid},\n    "cuda_devs": '
            f'{list(peer.gpus)},\n    "nvml_devs": {nvml}\n'
        )
    return (
        f'{{\n  "timestamp": "{timestamp}",\n  "group": "{event.group.upper()}",\n  "event": '
        f'"{event.name}",\n'
        '  "peer": {\n'
        f'{who}  }},\n  "details": {json.dumps(event.details)}\n'
        "}\n"
    )
