"""In place of the receivers of rules/alertmanager.yml (pager, chat, tracker, owner, automation):
prints what each receives, one line per alert.
"""

from __future__ import annotations

import http.server
import json
import sys
from collections.abc import Iterator
from typing import Any

ADDRESS = ("127.0.0.1", 9099)  # as rules/alertmanager.yml has it
MAX_BYTES = 1 << 20


def lines(receiver: str, message: Any) -> Iterator[str]:
    """A webhook message of Alertmanager as lines of text.

    >>> alert = {
    ...     "status": "firing",
    ...     "labels": {"alertname": "A", "node": "n1"},
    ...     "annotations": {"description": "GPU 3 is gone."},
    ... }
    >>> list(lines("pager", {"alerts": [alert]}))
    ['pager       firing    A on n1: GPU 3 is gone.']
    """
    for alert in message["alerts"]:
        where = alert["labels"].get("node") or alert["labels"].get("instance", "?")
        text = (
            f"{alert['labels'].get('alertname')} on {where}: "
            f"{alert['annotations'].get('description', '')}"
        )
        yield f"{receiver:11} {alert['status']:9} {text}"


class Receiver(http.server.BaseHTTPRequestHandler):
    """Takes what Alertmanager posts; the path is the receiver's name."""

    def do_POST(self) -> None:
        """One message."""
        try:
            new = list(
                lines(
                    self.path.strip("/"),
                    json.loads(self.rfile.read(min(self._length(), MAX_BYTES))),
                )
            )
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            self.send_error(400, explain=str(error))
            return
        if self.path != "/deadman":  # it comes every minute, and is missed only when it does not
            sys.stdout.writelines(f"{line}\n" for line in new)
            sys.stdout.flush()
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Nothing but the alerts."""

    def _length(self) -> int:
        return int(self.headers.get("Content-Length", "0"))


if __name__ == "__main__":
    http.server.ThreadingHTTPServer(ADDRESS, Receiver).serve_forever()
