"""What we drained here and why, kept on the node: an agent
without it owns nothing and resumes nothing.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path

from collector.integrations.durable import open_to_write, write_json


class BusyError(Exception):
    """Another check of this node is at it right now."""


@dataclass(frozen=True, slots=True)
class Drained:
    """One drain.

    ``reason`` and ``by`` are the controller's own words right after it; ``parts`` is who
    answered then, by kind and id, ``silent`` who was known and did not.

    ``failed`` is the evidence of a repair after which the burn-in check failed: it is not tried
    again on the same evidence. ``trying`` is set from before that check begins until it has ended:
    found set, the check never came to its end. ``over`` is set once people have decided otherwise:
    while one of its incidents is open this node is left alone from then on. ``incidents`` are all
    of them, ``incident`` the one that it was drained for first. ``was`` is the reason that
    is being replaced; until that is done the node has either. ``allowance`` is the token of the
    hour that was taken for it.
    """

    node: str
    incident: str
    action: str
    kind: str
    device: str
    slot: str
    reason: str
    by: str
    boot_id: str
    time: float
    parts: Mapping[str, str] = field(default_factory=dict)
    over: bool = False
    failed: str = ""
    trying: bool = False
    was: str = ""
    incidents: Sequence[str] = ()
    allowance: str = ""
    silent: Sequence[str] = ()

    @property
    def about(self) -> frozenset[str]:
        """The incidents that it is for."""
        return frozenset((self.incident, *self.incidents))

    @property
    def confirmed(self) -> bool:
        """Whether the controller was seen to have it."""
        return bool(self.by or self.was)


class Record:
    """One small file, written whole or not at all, and the lock that lets one check
    of a node act at a time.
    """

    def __init__(self, file: Path) -> None:
        self.file = file

    @contextmanager
    def held(self) -> Iterator[None]:
        """Alone. BusyError where another process is; OSError where there is no such folder."""
        with os.fdopen(
            open_to_write(self.file.with_suffix(".lock")), "w", encoding="ascii"
        ) as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise BusyError("another check of this node is running") from error
            yield

    def read(self) -> Drained | None:
        """None where nothing was drained, or where the file cannot be
        understood: then nothing is ours.
        """
        try:
            return Drained(**json.loads(self.file.read_text(encoding="utf-8")))
        except FileNotFoundError:
            return None
        except (TypeError, ValueError):
            return None

    def write(self, drained: Drained) -> None:
        """Durably, before anything depends on it."""
        write_json(self.file, asdict(drained))

    def forget(self) -> None:
        """It is over."""
        self.file.unlink(missing_ok=True)


def key(kind: str, device: str) -> str:
    """How a part is named in ``parts``."""
    return f"{kind} {device}"
