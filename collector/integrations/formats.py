"""An answer in the words and exit codes of each scheduler's or monitor's own plug-in protocol."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import NamedTuple

from collector.integrations.agent_client import Answer

# node-problem-detector cuts a plugin's output at max_output_length, 80 by default
# (docs/custom_plugin_monitor.md).
NPD_LENGTH = 80
MAX_LINE = 400


class Reply(NamedTuple):
    """One line for standard output, and the exit code."""

    text: str
    code: int


def nhc(answer: Answer) -> Reply:
    """LBNL Node Health Check: 1 is a failed check and may take the node offline, so only a
    page is one; unknown is 0.
    """
    return Reply(_line(answer), int(answer.state == "problem" and answer.worst == "page"))


def npd(answer: Answer) -> Reply:
    """node-problem-detector's custom plugins: 0 OK, 1 a problem (a page), 2 unknown; the line is
    the condition's message.
    """
    if answer.out_of_service or answer.state == "ok":
        return Reply("no known problem"[:NPD_LENGTH], 0)
    code = {"problem": int(answer.worst == "page")}.get(answer.state, 2)
    return Reply(_short(answer)[:NPD_LENGTH], code)


def nagios(answer: Answer) -> Reply:
    """Nagios, Icinga, Sensu: 0 OK, 1 WARNING (a ticket), 2 CRITICAL (a page), 3 UNKNOWN
    (Monitoring Plugins guidelines).
    """
    if answer.out_of_service:
        return Reply(f"TOCSIN OK - {_line(answer)}", 0)
    code = {"ok": 0, "unknown": 3}.get(answer.state, {"page": 2, "ticket": 1}.get(answer.worst, 0))
    words = ("OK", "WARNING", "CRITICAL", "UNKNOWN")[code]
    return Reply(
        f"TOCSIN {words} - {_line(answer)}".replace("|", "/")
        + f" | incidents={len(answer.problems)}",
        code,
    )


def as_json(answer: Answer) -> Reply:
    """The agent's answer as it is, on one line: 0 ok, 1 a problem, 2 unknown."""
    document = {
        key: value
        for key, value in answer.document.items()
        if key not in ("parts", "silent", "gates")
    }
    document = document or {"host": answer.host, "verdict": answer.state, "reason": answer.reason}
    return Reply(json.dumps(document), {"ok": 0, "problem": 1}.get(answer.state, 2))


FORMATS: Mapping[str, Callable[[Answer], Reply]] = {
    "nhc": nhc,
    "npd": npd,
    "nagios": nagios,
    "json": as_json,
}


def _line(answer: Answer) -> str:
    if answer.out_of_service:
        return f"out of service: {answer.out_of_service}"[:MAX_LINE]
    return _short(answer)[:MAX_LINE]


def _short(answer: Answer) -> str:
    """The gravest problem first: which part, then what is wrong."""
    gravest = (
        [problem for problem in answer.problems if problem.severity == answer.worst]
        if answer.worst
        else []
    )
    if answer.state != "problem" or not gravest:
        return f"{answer.state}: {answer.reason}"
    more = f" (+{len(answer.problems) - 1})" if len(answer.problems) > 1 else ""
    return f"{gravest[0].name}: {gravest[0].fault}{more}: {gravest[0].summary}"
