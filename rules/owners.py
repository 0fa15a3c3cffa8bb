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


def _of_job(*names: str) -> str:
    """A fact of the job that has the root cause's GPU, or had it an hour ago; of classes of
    applications only: the job ends, and the labels of other alerts must not change then.
    """
    series = "last_over_time(tocsin_device_job_info{instance=%q,uuid=%q}[1h])"
    query = series.replace('"', '\\"')
    values = " ".join(f'($job | label "{name}")' for name in names)
    value = f"or {values}" if len(names) > 1 else values.strip("()")
    return (
        f'{{{{ if match "^({APPLICATION})$" $labels.class }}}}'
        f'{{{{ with printf "{query}" $labels.instance $labels.root_device | query }}}}'
        f"{{{{ $job := . | first }}}}{{{{ {value} }}}}{{{{ end }}}}{{{{ end }}}}"
    )


# Empty ones are left out by Prometheus.
LABELS = {"owner": _of_job("user", "namespace"), "team": _of_job("account", "namespace")}
