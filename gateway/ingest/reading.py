"""The seam between the bus and the judge: who decodes messages, and writes their values into joined
frames.
"""

from __future__ import annotations

from typing import Protocol

from pipeline.bus import subjects
from pipeline.bus.batch import BatchError, Decoder, Received
from pipeline.room_writing import Here, Writing


class Reading(Protocol):
    """Decodes messages; ``writing`` writes the values of what it decoded."""

    @property
    def writing(self) -> Writing:
        """For the frames of these batches."""

    def offer(self, token: str, payload: bytes) -> None:
        """A message that will be read: messages are read in the order in which they are offered.
        Another thread may call it.
        """

    def read(self, token: str, payload: bytes) -> Received:
        """The batch of the host that the subject's token names. BatchError where it is none."""

    def tend(self) -> None:
        """Called several times a second, whether messages come or not."""

    def forget(self, token: str) -> None:
        """A host that is gone."""

    def close(self) -> None:
        """Nothing is read any more."""


class InProcess:
    """In the judge's thread."""

    def __init__(self) -> None:
        self.writing: Writing = Here()
        self._decoders: dict[str, Decoder] = {}  # of each host, by its token

    def offer(self, token: str, payload: bytes) -> None:
        """Nothing is done before it is read."""

    def read(self, token: str, payload: bytes) -> Received:
        """The batch of the host that the subject's token names. BatchError where it is none."""
        decoder = self._decoders.get(token) or Decoder()
        batch = decoder.decode(payload)
        checked(batch.host, token)
        self._decoders[token] = decoder
        return batch

    def tend(self) -> None:
        """Nothing can end."""

    def forget(self, token: str) -> None:
        """A host that is gone."""
        self._decoders.pop(token, None)

    def close(self) -> None:
        """Nothing is to be ended."""


def checked(host: str, token: str) -> None:
    """BatchError where a batch is not of the host that the token names."""
    if subjects.token(host) != token:
        raise BatchError(f"a batch of {host!r:.80} on the subject of {token!r:.80}")
