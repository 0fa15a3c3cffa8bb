"""Makes a bucket in the object store of docker-compose.yml; waits until the store answers."""

from __future__ import annotations

import sys
import time
import urllib.request
from collections.abc import Callable

ATTEMPTS = 60  # one a second


def make(url: str, pause: Callable[[], None]) -> None:
    """PUT the bucket; OSError of the last attempt when the store never answers."""
    request = urllib.request.Request(url, method="PUT")  # noqa: S310 - an address of docker-compose.yml
    for attempt in range(1, ATTEMPTS + 1):
        try:
            urllib.request.urlopen(request, timeout=5).close()  # noqa: S310
            return
        except OSError:
            if attempt == ATTEMPTS:
                raise
            pause()


if __name__ == "__main__":
    make(sys.argv[1], lambda: time.sleep(1))
