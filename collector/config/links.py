"""Links of an incident to a site's own runbook and dashboards: templates of the configuration."""

from __future__ import annotations

import string
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import quote

PLACES = ("host", "gpu", "uuid", "device", "kind", "class", "alert", "incident")
_FORMATTER = string.Formatter()


@dataclass(frozen=True, slots=True)
class Links:
    """Templates of URLs; empty: no link."""

    runbook: str = ""
    dashboard: str = ""

    def of(self, values: Mapping[str, str]) -> dict[str, str]:
        """The links that are configured, with these values, percent-encoded, in their places.

        >>> Links(dashboard="https://grafana.example.org/d/node?var-host={host}").of(
        ...     {"host": "n/1"}
        ... )
        {'dashboard': 'https://grafana.example.org/d/node?var-host=n%2F1'}
        """
        filled = {place: quote(values.get(place, ""), safe="") for place in PLACES}
        named = (("runbook", self.runbook), ("dashboard", self.dashboard))
        return {name: template.format_map(filled) for name, template in named if template}


def template_fault(template: str, places: Sequence[str] = PLACES) -> str:
    """Why a template cannot be used; empty where it can.

    >>> template_fault("https://grafana.example.org/d/gpu?var-gpu={gpu}"), template_fault("")
    ('', '')
    >>> template_fault("javascript:alert(1)")
    'begins with neither http:// nor https://'
    >>> template_fault("https://x/{name}")[:43]
    '{name} is none of {host}, {gpu}, {uuid}, {d'
    >>> template_fault("http://{gpu}:9400/", ("host",))
    '{gpu} is none of {host}'
    """
    if not template:
        return ""
    if not template.startswith(("http://", "https://")):
        return "begins with neither http:// nor https://"
    try:
        fields = [part[1:] for part in _FORMATTER.parse(template) if part[1] is not None]
    except ValueError as error:
        return f"{error}; write {{{{ and }}}} for braces"
    for name, form, conversion in fields:
        if name not in places or form or conversion:
            return f"{{{name}}} is none of {', '.join(f'{{{place}}}' for place in places)}"
    return ""
