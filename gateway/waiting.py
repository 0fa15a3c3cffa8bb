"""Messages that were read and are not judged yet: an hour's would not fit into memory."""

from __future__ import annotations

from collections import deque

from gateway.consumer import Message

# A message is 13 kB and at most a megabyte: of a host that sends only such, or of a large job that
# stalls, the number alone would be gigabytes.
MAX_MESSAGES, MAX_BYTES = 10_000, 256 << 20


class Waiting:
    """In order. One thread puts, another one takes."""

    def __init__(self) -> None:
        self._messages: deque[Message] = deque()
        self._put = self._taken = 0  # bytes; each is counted by one thread

    @property
    def full(self) -> bool:
        """Whether no more is to be read."""
        return len(self) >= MAX_MESSAGES or self._put - self._taken >= MAX_BYTES

    def put(self, message: Message) -> None:
        """The next one."""
        self._put += len(message.payload)
        self._messages.append(message)

    def take(self) -> Message:
        """The oldest one. IndexError where there is none."""
        message = self._messages.popleft()
        self._taken += len(message.payload)
        return message

    def __len__(self) -> int:
        return len(self._messages)
