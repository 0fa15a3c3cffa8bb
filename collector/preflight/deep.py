"""Level deep: the diagnostics of DCGM, where it is installed."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from typing import Any

from collector.preflight.model import Machine, Outcome, Severity
from collector.preflight.standard import Run
from pipeline import child

PROGRAM = "dcgmi"
RUN_LEVEL = "3"  # DCGM user guide, Diagnostics: 1 seconds, 2 about 2 min, 3 about 15 min
DEADLINE_S = 3600.0
MAX_BYTES = 16 << 20
STATUS: dict[str, Severity] = {"fail": "page", "warn": "ticket", "error": "unknown"}


def diagnose(machine: Machine, run: Run = child.run) -> list[Outcome]:
    """What DCGM found; unknown where it is not there or cannot run."""
    program = shutil.which(PROGRAM)
    if program is None:
        return [_unknown(f"{PROGRAM} is not installed")]
    try:
        argv = [program, "diag", "-r", RUN_LEVEL, "-j"]
        done = run(argv, timeout_s=DEADLINE_S, max_bytes=MAX_BYTES)
    except OSError as error:
        return [_unknown(f"{PROGRAM}: {error.strerror}")]
    if done.timed_out or done.truncated:
        return [_unknown(f"{PROGRAM} diag did not end within {DEADLINE_S / 60:g} min")]
    text = done.stdout.decode(errors="replace")
    try:
        document = json.loads(text[text.index("{") :])
    except (ValueError, RecursionError):
        last = (done.stderr or done.stdout).decode(errors="replace").strip()[-200:]
        return [_unknown(f"{PROGRAM} diag: {last or 'no result'}")]
    if not any(_tests(document, 0)):  # no host engine, a busy GPU: JSON that has the error alone
        return [_unknown(f"{PROGRAM} diag: {_error(document) or 'no test was run'}")]
    return list(dict.fromkeys(outcomes(document, machine)))


def outcomes(document: Any, machine: Machine) -> Iterator[Outcome]:
    """Of the JSON of `dcgmi diag -j`, in the forms of DCGM 2 to 4: tests with results, wherever
    they are in the document.
    """
    names = {row.device.attributes.get("index", ""): row.name for row in machine.gpus}
    for test in _tests(document, 0):
        for result in test["results"]:
            if not isinstance(result, dict):
                continue
            status = str(result.get("status", "")).lower()
            severity = STATUS.get(status)
            if severity:
                gpu = _gpu(result)
                why = f"DCGM's test {test['name']}: {_words(result) or status}"
                yield Outcome("dcgm", severity, names.get(gpu, "node"), why[:300], "see dcgmi diag")


def _tests(node: Any, depth: int) -> Iterator[dict[str, Any]]:
    if depth > 8:
        return
    if isinstance(node, dict):
        if isinstance(node.get("results"), list) and isinstance(node.get("name"), str):
            yield node
        for value in node.values():
            yield from _tests(value, depth + 1)
    elif isinstance(node, list):
        for value in node:
            yield from _tests(value, depth + 1)


def _gpu(result: dict[str, Any]) -> str:
    for key in ("gpu_id", "gpu_ids", "entity_id"):
        if key in result and str(result.get("entity_group", "GPU")) == "GPU":
            return str(result[key])
    return ""


def _error(document: Any) -> str:
    """The ``runtime_error`` of a diagnostic that did not run, as dcgmi words it."""
    values = document.values() if isinstance(document, dict) else ()
    errors = (one.get("runtime_error") for one in values if isinstance(one, dict))
    return " ".join(next((str(one) for one in errors if one), "").split())[:200]


def _words(result: dict[str, Any]) -> str:
    """Warnings: a text, a list of texts, or of objects with the text in ``warning``."""
    given = result.get("warnings") or result.get("info") or ""
    parts = given if isinstance(given, list) else [given]
    texts = (str(p.get("warning", p)) if isinstance(p, dict) else str(p) for p in parts)
    return " ".join(" ".join(text.split()) for text in texts)


def _unknown(why: str) -> Outcome:
    return Outcome("dcgm", "unknown", "node", why)
