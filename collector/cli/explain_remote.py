"""What ``tocsin explain job --gateway`` does: the page of a job's life as a gateway makes it."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlencode

from collector import client
from collector.config.raw_setting import ConfigError
from collector.foreign_text import printable

ENDS: Mapping[str, str] = {"json": "", "html": ".html", "text": ".txt"}
DEADLINE_S = 30.0  # the gateway answers "not yet" after 20 s
MAX_BYTES = 8 << 20


def explain_remote(args: argparse.Namespace, job: str) -> int:
    """Write the page; 1 where there is none for who asks, or not yet."""
    if args.run_number < 0:
        raise ConfigError("--run: expected a number from 1")
    who = client.access(args)
    if args.gateway.startswith("http://") and who.login_file:
        raise ConfigError("--password-file: is sent to https:// alone")
    query = {"job": job} | ({"run": str(args.run_number)} if args.run_number else {})
    path = f"/api/v1/jobs/explanation{ENDS[args.format]}?{urlencode(query)}"
    try:
        url = args.gateway.rstrip("/") + path
        page = client.get(url, who, timeout_s=DEADLINE_S, max_bytes=MAX_BYTES).decode()
        if args.format == "json":
            page = json.dumps(json.loads(page), indent=2) + "\n"
        if args.output:
            Path(args.output).write_text(page, encoding="utf-8")
            return 0
    except (OSError, ValueError) as error:
        print(f"tocsin: {error}{_why(str(error))}", file=sys.stderr)
        return 1
    # Texts of others, without characters that a terminal would obey.
    sys.stdout.writelines(f"{printable(line, MAX_BYTES)}\n" for line in page.splitlines())
    return 0


def _why(error: str) -> str:
    """What a status means here."""
    if error.endswith("HTTP 404"):
        return ": no such run is stored, or it is not yours"
    return ": it is not ready yet, ask again" if error.endswith("HTTP 503") else ""
