"""Faults of applications are for the owners of the jobs: which classes, and whose job it is."""

from __future__ import annotations

from detectors.faults import FAULTS

# What an alert can be about: a finding that is only recorded is in none.
APPLICATION = "|".join(
    sorted(
        name
        for name, fault in FAULTS.items()
        if fault.origin == "application" and fault.severity != "record"
    )
)


def _of_job(name: str) -> str:
    """A fact of the job that has the root cause's GPU, or had it an hour ago, else the namespace of
    its pod; of classes of applications only: the job ends, and the labels of other alerts must not
    change then.

    A target of the Prometheus operator has a label `namespace` of its own, of the agent; ours is
    `exported_namespace` then. A job of Slurm has none, whatever the target has.
    """
    series = "last_over_time(tocsin_device_job_info{instance=%q,uuid=%q}[1h])"
    query = series.replace('"', '\\"')
    known = f'or ($job | label "{name}") ($job | label "exported_namespace")'
    pod = (
        '{{ if eq ($job | label "scheduler") "kubernetes" }}{{ $job | label "namespace" }}{{ end }}'
    )
    value = f"{{{{ with {known} }}}}{{{{ . }}}}{{{{ else }}}}{pod}{{{{ end }}}}"
    return (
        f'{{{{ if match "^({APPLICATION})$" $labels.class }}}}'
        f'{{{{ with printf "{query}" $labels.instance $labels.root_device | query }}}}'
        f"{{{{ $job := . | first }}}}{value}{{{{ end }}}}{{{{ end }}}}"
    )


# Empty ones are left out by Prometheus. The user is the kernel's word and the namespace the
# kubelet's; the account is the job's own.
LABELS = {"owner": _of_job("user"), "team": _of_job("account")}
