"""Redaction of what is handed on: users, notes, process names and ids, command lines, control
groups.

Everything about the hardware stays. Kernel lines that are mainly about a process are left
out; in others its name is masked.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import orjson
import pyarrow as pa

from pipeline.catalog import EVENTS, device_job

MASK = "***"
HIDDEN = ("process", "pid", "own_pid", "cgroup", "task_cgroup")
# within the documents of events: numbers of processes, lines of a job's log and of its code
PIDS, LINES = ("pid", "own_pid"), ("text", "frame")
OF_PEOPLE = ("user", "note")  # of those who took an incident on, or a device out of service
# what users call their work
OF_JOBS = {"job_started": ("name",), "pod_ended": ("pod", "container")}
# The id of a training of Kubernetes: namespace, name and letters of a UID, which stay.
_TRAINING = re.compile(r"(?<![\w./-])[a-z0-9.-]{1,253}/[a-z0-9.-]{1,253}\.([0-9a-f]{8})(?!\w)")
# Ids of jobs that nobody chose: Slurm's with step or array, a pod's UID, rank 0's address and port.
_NUMBERED_JOB = re.compile(r"\d[\d_+]*(\.\w+)?|pod[0-9a-f-]{36}|[\w.-]*:\d{1,5}")
_WORD = re.compile(r"[\w./:@+=-]+")
# The driver's own lines name the process among much that a vendor needs:
# `pid=1234, name=python3, Ch 00000008, ...`.
KEPT_LINES = ("xid", "sxid")
_NAMED = re.compile(
    r"(?i)\b(name|comm|process|task|cmdline|command)(\s*[=:]\s*)([^,;]+)|\b(pid)(\s*[=:]\s*)([^,;\s)\]]+)"
)
_NUMBERED = re.compile(r"(?i)\b(pid|process)(\s+)(\d+)(?:\s*\([^)]*\))?")
MIN_NAME = 3  # shorter ones would mask parts of other words


class Redaction:
    """Masks texts and attributes.

    ``names`` are the processes of the exported events, ``jobs`` the ids of jobs that are names
    (`job_names`): they are masked wherever they occur, and jobs stay apart.
    """

    def __init__(self, names: Iterable[str] = (), jobs: Iterable[str] = ()) -> None:
        self._jobs = {
            one: f"job.{hashlib.sha256(one.encode()).hexdigest()[:8]}"
            for one in jobs
            if len(one) >= MIN_NAME and not _TRAINING.fullmatch(one)
        }
        known = sorted({n for n in names if len(n) >= MIN_NAME}, key=len, reverse=True)
        self._names = (
            re.compile("|".join(rf"(?<!\w){re.escape(n)}(?!\w)" for n in known)) if known else None
        )

    def text(self, text: str) -> str:
        """A text without names of processes and trainings.

        >>> Redaction().text("job ml/llm.1a2b3c4d"), Redaction().text("mlx5_0/1")
        ('job training.1a2b3c4d', 'mlx5_0/1')
        >>> Redaction(["train.py"]).text("Xid 31, pid=71, name=python3, Ch 8: train.py")
        'Xid 31, pid=***, name=***, Ch 8: ***'
        """
        if self._jobs:
            text = self._jobs.get(text) or _WORD.sub(self._word, text)
        if self._names is not None:
            text = self._names.sub(MASK, text)
        text = _TRAINING.sub(r"training.\1", text)
        return _NUMBERED.sub(rf"\1\2{MASK}", _NAMED.sub(rf"\1\2\4\5{MASK}", text))

    def _word(self, found: re.Match[str]) -> str:
        word = found[0].rstrip(".:")  # at the end of a sentence
        return self._jobs.get(word, word) + found[0][len(word) :]

    def attributes(self, kind: str, attributes: Mapping[str, Any]) -> dict[str, Any]:
        """Attributes of an event without what is about a process or a person."""
        left_out = (*HIDDEN, *OF_PEOPLE, *OF_JOBS.get(kind, ()))
        kept = {k: v for k, v in attributes.items() if k not in left_out}
        if "job" in kept:
            kept["job"] = self.text(str(kept["job"]))
        if "report" in kept:  # it joins events, and is made of the job, its log and a process
            kept["report"] = hashlib.sha256(str(kept["report"]).encode()).hexdigest()[:16]
        if "document" in kept:
            kept["document"] = self._document(str(kept["document"]))
        if "text" in kept:
            about_process = kind not in KEPT_LINES and kind in _OF_PROCESSES
            kept["text"] = MASK if about_process else self.text(str(kept["text"]))
        return kept

    def table(self, name: str, rows: pa.Table) -> pa.Table:
        """Rows of a table of the store as they may leave."""
        if "device" in rows.column_names:
            rows = _with(rows, "device", _each(self.text, rows["device"].to_pylist()))
        if "device_attributes" in rows.column_names:
            about = _each(self._facts, rows["device_attributes"].to_pylist())
            rows = _with(rows, "device_attributes", about)
        if name == "events":
            kinds, given = rows["kind"].to_pylist(), rows["attributes"].to_pylist()
            masked = [
                _json(self.attributes(k, orjson.loads(a)))
                for k, a in zip(kinds, given, strict=True)
            ]
            return _with(rows, "attributes", masked)
        if name == "devices":
            kinds, given = rows["kind"].to_pylist(), rows["attributes"].to_pylist()
            kept = [self._of_device(k, a) for k, a in zip(kinds, given, strict=True)]
            return _with(rows, "attributes", kept)
        if name in ("findings", "incidents"):
            rows = _with(rows, "summary", _each(self.text, rows["summary"].to_pylist()))
        if name == "incidents":
            rows = _with(rows, "ended", _each(self.text, rows["ended"].to_pylist()))
            jobs = [_each(self.text, jobs or []) for jobs in rows["jobs"].to_pylist()]
            rows = _with(rows, "jobs", jobs)
            for column in ("note", "acknowledged_by"):
                rows = _with(
                    rows, column, [MASK if value else value for value in rows[column].to_pylist()]
                )
        if name == "findings":
            evidence = [
                None if e is None else [self.text(line) for line in e]
                for e in rows["evidence"].to_pylist()
            ]
            rows = _with(rows, "evidence", evidence)
        if name == "reads":
            for column in ("error", "unread"):
                rows = _with(rows, column, _each(self.text, rows[column].to_pylist()))
        return rows

    def _facts(self, text: str) -> str:
        """Host and facts of a device, as events and findings have them."""
        host, facts = orjson.loads(text)
        kept = {k: v for k, v in facts.items() if k not in device_job.PERSONAL}
        return _json([host, {k: self.text(v) if k == "job" else v for k, v in kept.items()}])

    def _of_device(self, kind: str, attributes: str) -> str:
        """Facts of a device as they may leave: whose job it was stays here, and of a job's control
        group what its training is called.
        """
        left_out = device_job.PERSONAL if kind == device_job.KIND else ()
        kept = {k: v for k, v in orjson.loads(attributes).items() if k not in left_out}
        return _json({k: self.text(v) if k == "job" else v for k, v in kept.items()})

    def _document(self, text: str) -> str:
        try:
            return json.dumps(self._masked("", json.loads(text)), separators=(",", ":"))
        except ValueError:  # damaged: what is in it is not known
            return MASK

    def _masked(self, name: str, value: Any) -> Any:
        if isinstance(value, dict):
            return {key: self._masked(key, one) for key, one in value.items()}
        if isinstance(value, list):
            return [self._masked(name, one) for one in value]
        if name in PIDS:
            return MASK if isinstance(value, str) else -1
        if not isinstance(value, str):
            return value
        is_path = name == "origin" and "/" in value
        return MASK if value and (name in LINES or is_path) else self.text(value)


_OF_PROCESSES = {
    kind.name for kind in EVENTS.values() if any(name in HIDDEN for name, _ in kind.attributes)
}


def process_names(events: pa.Table | None) -> set[str]:
    """Names of processes in the attributes of events."""
    rows = events["attributes"].to_pylist() if events is not None else []
    return {
        str(attributes["process"])
        for attributes in map(orjson.loads, rows)
        if "process" in attributes
    }


def job_names(events: pa.Table | None, incidents: pa.Table | None) -> set[str]:
    """Ids of jobs that are names which users gave: a pod's in an imported history, torchrun's run,
    a prolog's own. Names of hosts stay.
    """
    rows = [] if events is None else events.select(["host", "attributes"]).to_pylist()
    found = {str(orjson.loads(row["attributes"]).get("job", "")) for row in rows}
    jobs = [] if incidents is None else incidents["jobs"].to_pylist()
    found |= {job for each in jobs for job in each or ()}
    hosts = {row["host"] for row in rows}
    return {one for one in found - hosts if one and not _NUMBERED_JOB.fullmatch(one)}


def _with(rows: pa.Table, column: str, values: list[Any]) -> pa.Table:
    at = rows.schema.get_field_index(column)
    return rows.set_column(at, rows.schema.field(at), pa.array(values, rows.schema.field(at).type))


def _each(change: Callable[[str], str], values: list[str | None]) -> list[str | None]:
    return [None if value is None else change(value) for value in values]


def _json(value: Any) -> str:
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS).decode()
