"""What several dashboards ask: variables, states as numbers, links, rates."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from dashboards.meaning import HEALTH, State
from dashboards.panels import Link, Query, Variable
from dashboards.places import GPU, NODE
from dashboards.queries import facts, foreign, measured, own
from pipeline.catalog import agent

CLUSTERS = Variable("cluster", "Cluster", agent.BUILD_INFO.name, "cluster", every=".*")
_OF_CLUSTER = f'{agent.BUILD_INFO.name}{{cluster=~"$cluster"}}'
NODES = Variable("instance", "Node", _OF_CLUSTER, "instance")
ONE_NODE = Variable("instance", "Node", _OF_CLUSTER, "instance", one=True)
GPUS = Variable("gpu", "GPU", measured("gpu", "state"), "gpu")
ONE_GPU = Variable("gpu", "GPU", measured("gpu", "state"), "gpu", one=True)
UUID = Variable(
    "uuid", "UUID", measured("gpu", "state", gpu="=~$gpu"), "uuid", one=True, hidden=True
)
PORTS = Variable("device", "Adapter", facts("ib_port"), "device")

TO_NODE = Link("Node ${__field.labels.instance}", NODE, (("instance", "instance"),))
TO_GPU = Link(
    "GPU ${__field.labels.gpu} of ${__field.labels.instance}",
    GPU,
    (("instance", "instance"), ("gpu", "gpu")),
)
ROW_TO_NODE = Link("This node", NODE, (("instance", "Node"),))
ROW_TO_GPU = Link("This GPU", GPU, (("instance", "Node"), ("gpu", "GPU")))

BY_NODE = "cluster, instance"
_STEP = "$__rate_interval"
BY_GPU = "cluster, instance, gpu, uuid"
BY_PORT = "cluster, instance, device, port"

INCIDENTS = own(agent.INCIDENT_ACTIVE)
OF_INCIDENT = agent.INCIDENT_ACTIVE.labels
# A gateway is no node: rules/agents.py.
UP = foreign("up", job="=~.*tocsin.*").replace("}", ', job!~".*gateway.*"}')
AGENTS = own(agent.BUILD_INFO)  # one series per agent that answers


def xids(**matchers: str) -> str:
    """How many XIDs came within the step of the picture; 1 for a code that came for the first time,
    since its series was born with it.
    """
    step_s = "$__interval_ms / 1000 + 60"  # and a minute, in which it is scraped
    seen = f"time() - {own(agent.XID_LAST_SEEN, **matchers)} <= bool {step_s}"
    return f"{increase(own(agent.XID_ERRORS, **matchers))} > 0 or ({seen}) > 0"


def rose(series: str) -> str:
    """Where a counter rose within the step of the picture, or was born in it: one that begins with
    its first event shows no increase.
    """
    return f"{increase(series)} > 0 or ({series} unless {series} offset {_STEP}) > 0"


def increase(series: str) -> str:
    """Increase over the step of the picture: over a fixed time, what happened between two points of
    a coarse one would not be shown.
    """
    return f"increase({series}[{_STEP}])"


def process(name: str, of: Callable[[str], str] = str) -> str:
    """A series of the process of each agent, or what a function ``of`` makes of it."""
    # By job too: where the instance is the name of the node, it is that of other exporters as well.
    return f"{of(foreign(name))} and on (cluster, instance, job) {AGENTS}"


def one(by: str, series: str) -> str:
    """One series of each device. While a pod replaces another, or where two jobs scrape an agent,
    there are two, and Prometheus refuses all of a picture that joins one of them.
    """
    return f"max by ({by}) ({series})"


def rate(series: str) -> str:
    """Increase per second over the step of the picture."""
    return f"rate({series}[{_STEP}])"


def coded(by: str, states: Sequence[State], select: Callable[[str], str]) -> str:
    """Which of several states holds, as its number 0, 1, 2 ...; of several devices the last in the
    list, which is the worst.

    ``select`` gives the selector of one state's series, by its label.
    """
    terms = (f"{number} * ({select(state.label)} > 0)" for number, state in enumerate(states))
    return f"max by ({by}) ({' or '.join(terms)})"


def zero_where(expression: str, witness: str) -> str:
    """The number that an expression counts, 0 only where a ``witness`` shows that it was
    counted; else nothing at all.
    """
    return f"{expression} or 0 * count({witness})"


def health(by: str, kind: str) -> str:
    """Health of the devices of a kind as a number (see meaning.HEALTH)."""
    return coded(by, HEALTH, lambda label: own(agent.DEVICE_HEALTH, kind=kind, health=label))


def gpu_health() -> str:
    """Health of each GPU as a number, with its index and its UUID."""
    named = (
        f'label_replace({health("cluster, instance, device", "gpu")}, "uuid", '
        '"$1", "device", "(.+)")'
    )
    with_index = (
        f"{named} + on (cluster, instance, uuid) group_left (gpu) 0 * "
        f"{one(BY_GPU, measured('gpu', 'state', state='ok'))}"
    )
    return f"max by ({BY_GPU}) ({with_index})"


def port_health(**matchers: str) -> str:
    """Health of each port as a number; one that should be active and is seen not to be has failed,
    whatever is held against it.
    """
    named = (
        f'label_replace({health("cluster, instance, device", "ib_port")}, "port_guid", '
        '"$1", "device", "(.+)")'
    )
    judged = (
        f"{facts('ib_port', **matchers)} * on (cluster, instance, port_guid) group_left () {named}"
    )
    wanted, active = (
        measured("ib_port", "expected", **matchers),
        measured("ib_port", "state", state="active", **matchers),
    )
    out = f"{len(HEALTH) - 1} * (({wanted} == 1) and on ({BY_PORT}) ({active} == 0))"
    return f"max by ({BY_PORT}) ({judged} or {out})"


def in_state(*states: str) -> str:
    """How many GPUs and ports are in one of these states of health: so many cells are of their
    colours.
    """
    numbers = [number for number, state in enumerate(HEALTH) if state.label in states]
    terms = [f"({of}) == {number}" for of in (gpu_health(), port_health()) for number in numbers]
    return zero_where(f"count({' or '.join(terms)})", AGENTS)


def cells(expression: str, label: str) -> Query:
    """A cell for each series, in the order of nodes and then of a label: Prometheus sorts by
    the names of labels first.
    """
    host = f'label_replace({expression}, "host", "$1", "instance", "(.+?)(:[0-9]+)?")'
    return Query(
        (
            f'max by (cell, cluster, instance, {label}) (label_join({host}, "cell", " ", '
            f'"host", "{label}"))'
        ),
        "{{cell}}",
    )


def ever(expression: str, by: str) -> str:
    """States of those that were at any time in the picture not in the first one: of a thousand
    rows those worth a look.
    """
    return (
        f"({expression}) and on ({by}) "
        f"max_over_time(({expression})[$__range:$__interval] @ end()) > 0"
    )


def most(expression: str, by: str, *, least: bool = False) -> str:
    """The ten series that went highest (lowest) over the whole picture, so that lines do not come
    and go from point to point.
    """
    span = "[$__range:$__interval] @ end()"
    chosen = (
        f"bottomk(10, min_over_time(({expression}){span}))"
        if least
        else f"topk(10, max_over_time(({expression}){span}))"
    )
    return f"({expression}) and on ({by}) {chosen}"
