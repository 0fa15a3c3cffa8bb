"""Faults of applications are for the owners of the jobs: which classes, and whose job it is."""

from __future__ import annotations

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


class _Jobs(NamedTuple):
    """Of which agents jobs are asked for: a matcher and its argument; what is joined, with an
    argument; and the series of the incidents, with a matcher and its argument.
    """

    of: str
    own: str
    joined: str
    bus: str
    incident: str
    whose: str

    def held(self, matchers: str) -> str:
        """A call of `printf`: the series of jobs that have the root cause, or are it."""
        series = f"tocsin_device_job_info{{{self.of}{matchers}}}".replace('"', '\\"')
        return f'printf "{series}" {self.own}$labels.root_device'

    @property
    def begin(self) -> str:
        """A query: when the incident was not there yet, within an hour."""
        series = f"{self.incident}=%q,root_device=%q,class=%q}}"
        text = f"max_over_time((vector(time()) unless on () {series})[1h:15s])"
        return f'query (printf "{text}" {self.whose} $labels.root_device $labels.class)'

    @property
    def query(self) -> str:
        """Jobs of two series: those that had the root cause when the incident began, before those
        that had it in the hour before that, and any of the last hour where that is not known.
        """
        asked = [
            text.replace("#", f"%[{number}]s")
            for text in ("#%[3]s", "last_over_time(#[1h]%[3]s)", "last_over_time(#[1h])")
            for number in (1, 2)
        ]
        return f'query (printf "({" or ".join(asked)}){self.joined}" $of $or $begin{self.bus})'


_AGENT = _Jobs(
    "instance=%q,",
    "$labels.instance ",
    "",
    "",
    "tocsin_incident_active{instance",
    "$labels.instance",
)
# A gateway holds no job: any agent's that sends to its bus, as two clusters may have jobs of one
# number.
_CLUSTER = _Jobs(
    "",
    "",
    " and on (cluster, node, instance) last_over_time(tocsin_bus_info{bus_cluster=%[4]q}[1h])",
    " $labels.bus_cluster",
    "tocsin_fleet_incident_active{bus_cluster",
    "$labels.bus_cluster",
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
    labels of other alerts must not change then. A job that had the GPU before the incident began,
    or has got it since, is not to blame.

    Prometheus renames our label `job`, as a target has one of its own, unless labels are honoured.
    """
    of_job = "".join(
        f"{{{{ ${variable} = {jobs.held(matchers)} }}}}"
        for variable, matchers in (("of", "exported_job=%q"), ("or", 'job=%q,exported_job=""'))
    )
    return (
        f'{{{{ if match "^({APPLICATION})$" $labels.class }}}}'
        f'{{{{ $begin := "" }}}}{{{{ with {jobs.begin} }}}}'
        '{{ $begin = printf " @ %.0f" (. | first | value) }}{{ end }}'
        f"{{{{ $of := {jobs.held('uuid=%q')} }}}}{{{{ $or := $of }}}}"
        f'{{{{ if eq $labels.root_kind "job" }}}}{of_job}{{{{ end }}}}'
        f"{{{{ with {jobs.query} }}}}"
        f"{{{{ $job := . | first }}}}{_fact(name)}{{{{ end }}}}{{{{ end }}}}"
    )


# Empty ones are left out by Prometheus. The user is the kernel's word and the namespace the
# kubelet's; the account is the job's own.
FACTS = {"owner": "user", "team": "account"}
LABELS = {label: _of_job(fact, _AGENT) for label, fact in FACTS.items()}
FLEET_LABELS = {label: _of_job(fact, _CLUSTER) for label, fact in FACTS.items()}
