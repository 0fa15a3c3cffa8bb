"""Slurm's controller, through its own commands: scontrol(1), sinfo(1) and squeue(1)."""

from __future__ import annotations

import os
import re
import shutil
from dataclasses import replace

from collector.integrations.scheduler import INVALID, OURS, CannotAskError, NodeState
from pipeline import child

DEADLINE_S = 10.0
# Where sites have Slurm; a HealthCheckProgram is started with next to no environment.
PATHS = "/usr/local/bin:/usr/bin:/bin:/opt/slurm/bin:/usr/local/slurm/bin"
# a token never takes effect: no job reaches so far (an unlimited one counts as a year)
FAR = "now+3650days"
# What may still run, or run again: a node is idle to slurmctld while its only job is suspended.
LEFT = "RUNNING,SUSPENDED,COMPLETING,STOPPED"
# Variables by which these commands show less, or in another form, or another cluster;
# ours are in UTC, since the time that a reason was set is compared with what was read before.
_BENT = ("SLURM_CLUSTERS", "SCONTROL_", "SINFO_", "SQUEUE_")
_OURS = {"TZ": "UTC", "SLURM_TIME_FORMAT": "standard"}
_REASON = re.compile(r" Reason=(?P<text>.*?) \[(?P<by>[^\[\]]*@\d{4}-[^\[\]]*)\]")
_STATE = re.compile(r" State=([A-Z_+*~#!%$@^-]+)")
_USER = re.compile(r"^SlurmUser\s*=\s*([^\s(]+)", re.MULTILINE)
_TOKEN = re.compile(r"^ReservationName=(\S+) .*? Nodes=(\S+)", re.MULTILINE)


class Controller:
    """Slurm's commands of this machine, each call within a deadline."""

    def __init__(self, deadline_s: float = DEADLINE_S) -> None:
        self._deadline_s = deadline_s
        self._path = f"{os.environ.get('PATH', '')}:{PATHS}"

    def node(self, name: str) -> NodeState:
        """One node. Newer releases of slurmctld put their own reason, as the SlurmUser, in place of
        any other where a node registers with less than it should have.
        """
        state = parse_node(self._ask("scontrol", "--oneliner", "show", "node", name))
        if not state.drained or not state.words & INVALID:
            return state
        user = _USER.search(self._ask("scontrol", "show", "config"))
        by_itself = user is not None and state.by.partition("@")[0] == user[1]
        return replace(state, replaced=by_itself)

    def has_jobs(self, name: str) -> bool:
        """By the list of jobs: the state of a node says nothing of suspended ones."""
        of_node = f"--nodelist={name}", f"--states={LEFT}"
        options = ("--noheader", "--all", "--local", "--format=%i")
        return bool(self._ask("squeue", *options, *of_node).strip())

    def drained(self) -> dict[str, str]:
        """Nodes that take no new jobs for a reason of ours, and the reason."""
        lines = self._ask(
            "sinfo", "--noheader", "--Node", "--states=drain", "--format=%N|%E"
        ).splitlines()
        rows = (line.split("|", 1) for line in lines if "|" in line)
        return {node: reason for node, reason in rows if reason.startswith(OURS)}

    def tokens(self, prefix: str) -> dict[str, str]:
        """Reservations whose names begin so, and the node each lies on."""
        return {
            name: node
            for name, node in parse_tokens(
                self._ask("scontrol", "--oneliner", "show", "reservation")
            )
            if name.startswith(prefix)
        }

    def take(self, token: str, node: str) -> bool:
        """Make a reservation of that name; False where there is one already. slurmctld lets one of
        many win, however many ask at once.
        """
        what = [
            f"ReservationName={token}",
            f"Nodes={node}",
            f"StartTime={FAR}",
            "Duration=1",
            "Users=root",
            "Flags=OVERLAP,IGNORE_JOBS",
        ]
        done = self._run("scontrol", "create", "reservation", *what)
        if done.returncode == 0:
            return True
        if "Duplicate reservation" in _words(done):
            return False
        raise CannotAskError(f"scontrol create reservation {token}: {_words(done)}")

    def drop(self, token: str) -> None:
        """Delete a reservation; one that is gone already is fine."""
        done = self._run("scontrol", "delete", f"ReservationName={token}")
        if done.returncode and "invalid" not in _words(done) and "not found" not in _words(done):
            raise CannotAskError(f"scontrol delete ReservationName={token}: {_words(done)}")

    def drain(self, node: str, reason: str) -> None:
        """Let it finish its jobs and take no new ones."""
        self._ask("scontrol", "update", f"NodeName={node}", "State=DRAIN", f"Reason={reason}")

    def resume(self, node: str) -> None:
        """Let it take jobs again."""
        self._ask("scontrol", "update", f"NodeName={node}", "State=RESUME")

    def _ask(self, *argv: str) -> str:
        done = self._run(*argv)
        if done.returncode:
            raise CannotAskError(f"{' '.join(argv[:3])}: {_words(done)}")
        return done.stdout.decode("utf-8", "replace")

    def _run(self, *argv: str) -> child.Finished:
        program = shutil.which(argv[0], path=self._path)
        if program is None:
            raise CannotAskError(f"{argv[0]} is not installed here")
        try:
            environ = {
                name: value for name, value in os.environ.items() if not name.startswith(_BENT)
            } | _OURS
            done = child.run(
                [program, *argv[1:]], timeout_s=self._deadline_s, max_bytes=16 << 20, env=environ
            )
        except OSError as error:
            raise CannotAskError(f"{argv[0]}: {error.strerror}") from error
        if done.timed_out or done.truncated:
            raise CannotAskError(f"{argv[0]}: no answer within {self._deadline_s:g} s")
        return done


def parse_node(line: str) -> NodeState:
    """From ``scontrol --oneliner show node``. CannotAskError where no state stands in it.

    >>> parse_node(
    ...     "NodeName=gpu07 State=IDLE+DRAIN Port=1 Reason=tocsin:xid GPU 3 [root@2026-11-20T13:26:47]"
    ... ).reason
    'tocsin:xid GPU 3'
    """  # noqa: E501 - an example or a table
    state, reason = _STATE.search(line), _REASON.search(line)
    if state is None:
        raise CannotAskError(f"scontrol show node: no state in {line[:200]!r}")
    words = frozenset(re.split(r"[+*~#!%$@^-]+", state[1])) - {""}
    return NodeState(words, reason["text"] if reason else "", reason["by"] if reason else "")


def parse_tokens(text: str) -> list[tuple[str, str]]:
    """Name and nodes of each reservation."""
    return _TOKEN.findall(text)


def _words(done: child.Finished) -> str:
    said = (done.stderr + b" " + done.stdout).decode("utf-8", "replace")
    return " ".join(said.split())[:300] or f"exit code {done.returncode}"
