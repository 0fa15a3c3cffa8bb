"""Faults of applications are for the owners of the jobs: which classes, and whose job it is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from detectors.faults import FAULTS

# What an alert can be about: a finding that is only recorded is in none.
APPLICATION = "|".join(
    sorted(
        name
        for name, fault in FAULTS.items()
        if fault.origin == "application" and fault.severity != "record"
    )
)


# What is known of the job that has the root cause, or had it an hour ago: a GPU, or the job itself.
# Prometheus renames our label `job`, as a target has one of its own, unless labels are honoured.
_HELD = ("uuid=%q", "exported_job=%q", 'job=%q,exported_job=""')


class _Jobs(NamedTuple):
    """Of which agents jobs are asked for: matchers, what is joined, and the arguments of both."""

    of: str
    joined: str
    own: str
    bus: str

    def query(self, held: Sequence[str]) -> str:
        """A call of `printf`: the query with its arguments."""
        series = [
            f"last_over_time(tocsin_device_job_info{{{self.of}{matchers}}}[1h])"
            for matchers in held
        ]
        text = f"({' or '.join(series)}){self.joined}".replace('"', '\\"')
        arguments = [f"{self.own}$labels.root_device" for _ in held]
        return " ".join(["printf", f'"{text}"', *arguments]) + self.bus


_AGENT = _Jobs("instance=%q,", "", "$labels.instance ", "")
# A gateway holds no job: any agent's that sends to its bus, as two clusters may have jobs of one
# number.
_CLUSTER = _Jobs(
    "",
    " and on (cluster, node, instance) last_over_time(tocsin_bus_info{bus_cluster=%q}[1h])",
    "",
    " $labels.bus_cluster",
)


def _fact(name: str) -> str:
    """A fact of a job; the namespace of its pod where it has none.

    A target of the Prometheus operator has a label `namespace` of its own, of the agent; ours is
    `exported_namespace` then. A job of Slurm has none, whatever the target has.
    """
    known = f'or ($job | label "{name}") ($job | label "exported_namespace")'
    pod = (
        '{{ if eq ($job | label "scheduler") "kubernetes" }}{{ $job | label "namespace" }}{{ end }}'
    )
    return f"{{{{ with {known} }}}}{{{{ . }}}}{{{{ else }}}}{pod}{{{{ end }}}}"


def _of_job(name: str, jobs: _Jobs) -> str:
    """A fact of the job of the root cause, of classes of applications only: the job ends, and the
    labels of other alerts must not change then.
    """
    gpu, *job = _HELD
    return (
        f'{{{{ if match "^({APPLICATION})$" $labels.class }}}}'
        f"{{{{ $held := {jobs.query([gpu])} }}}}"
        f'{{{{ if eq $labels.root_kind "job" }}}}{{{{ $held = {jobs.query(job)} }}}}{{{{ end }}}}'
        f"{{{{ with query $held }}}}"
        f"{{{{ $job := . | first }}}}{_fact(name)}{{{{ end }}}}{{{{ end }}}}"
    )


# Empty ones are left out by Prometheus. The user is the kernel's word and the namespace the
# kubelet's; the account is the job's own.
FACTS = {"owner": "user", "team": "account"}
LABELS = {label: _of_job(fact, _AGENT) for label, fact in FACTS.items()}
FLEET_LABELS = {label: _of_job(fact, _CLUSTER) for label, fact in FACTS.items()}
