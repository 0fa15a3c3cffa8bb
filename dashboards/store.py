"""Store: does every node keep its history, and does the evidence leave it."""

from __future__ import annotations

from dashboards import places
from dashboards.meaning import NONE_IS_BEST, NONE_IS_WELL, Step
from dashboards.panels import Dashboard, Lines, Query, Row, Stat
from dashboards.queries import own
from dashboards.shared import BY_NODE, CLUSTERS, NODES, TO_NODE, most, one, rate, rose, zero_where
from pipeline.catalog import agent

_NODE = "{{instance}}"
_BYTES, _BUDGET = own(agent.STORE_BYTES), own(agent.STORE_BUDGET)
_FULL = (
    f"{one(BY_NODE, f'sum without (table) ({_BYTES})')} / on (cluster, instance) "
    f"{one(BY_NODE, _BUDGET)}"
)
_SEALED = own(agent.STORE_LAST_SEAL)
_SEAL_LATE_S = 3600  # a segment is sealed after 15 minutes at the latest: four were missed
_FAILED_SEALS, _FAILED_UPKEEPS = (
    own(agent.STORE_SEALS, outcome="failed"),
    own(agent.STORE_UPKEEPS, outcome="failed"),
)
_UNSENT = own(agent.STORE_REMOVED_BYTES, reason="budget_not_uploaded")
_WAITING = own(agent.UPLOAD_PENDING_FILES)
_NO_UPLOAD = "no agent uploads, or none answers"

NUMBERS = (
    Stat(
        title="Fullest",
        about=(
            "Of the bytes that a node's store may take. At the budget the oldest data is deleted, "
            "so that the disk never fills."
        ),
        queries=(Query(f"max({_FULL})"),),
        unit="percentunit",
        steps=(Step(0, "green"), Step(0.9, "yellow")),
        decimals=2,
    ),
    Stat(
        title="Stored in total",
        about="All chosen nodes together, on their own disks.",
        queries=(Query(f"sum({_BYTES})"),),
        unit="bytes",
    ),
    Stat(
        title="Not sealed for an hour",
        about=(
            "Nodes whose log was not turned into Parquet for an hour; it is due after 15 minutes."
        ),
        queries=(Query(zero_where(f"count(time() - {_SEALED} > {_SEAL_LATE_S})", _SEALED)),),
        steps=NONE_IS_WELL,
    ),
    Stat(
        title="Waiting for upload",
        about="Sealed files of all chosen nodes.",
        queries=(Query(f"sum({_WAITING})"),),
        steps=(Step(0, "green"), Step(100, "yellow")),
        empty=_NO_UPLOAD,
    ),
    Stat(
        title="Quarantined",
        about="Unreadable files that were quarantined, since the agents started.",
        queries=(Query(f"sum({own(agent.STORE_QUARANTINED)})"),),
        steps=NONE_IS_BEST,
        place=places.QUARANTINED,
    ),
    Stat(
        title="Log dropped",
        about=(
            "Segments of the write-ahead log that were dropped unsealed to stay within its size, "
            "since the agents started."
        ),
        queries=(Query(f"sum({own(agent.WAL_DROPPED_SEGMENTS)})"),),
        steps=NONE_IS_WELL,
    ),
)

KEPT = (
    Lines(
        title="Stored data",
        about=(
            "By table, all chosen nodes together: wal is the log that is not sealed yet, outbox "
            "what waits to be uploaded."
        ),
        queries=(Query(f"sum by (table) ({_BYTES})", "{{table}}"),),
        unit="bytes",
        minimum=0,
        stacked=True,
    ),
    Lines(
        title="Share of the budget",
        about="The ten fullest nodes.",
        queries=(
            Query(
                most(_FULL, BY_NODE),
                _NODE,
            ),
        ),
        unit="percentunit",
        steps=(Step(0, "green"), Step(1, "red")),
        minimum=0,
        maximum=1,
        links=(TO_NODE,),
    ),
    Lines(
        title="Time since the last sealing",
        about=(
            "The ten nodes that have waited longest. It is due after 15 minutes, and within "
            "10 seconds of a page."
        ),
        queries=(Query(most(f"time() - {_SEALED}", BY_NODE), _NODE),),
        unit="s",
        steps=(Step(0, "green"), Step(_SEAL_LATE_S, "red")),
        minimum=0,
        links=(TO_NODE,),
    ),
    Lines(
        title="Failed maintenance",
        about=(
            "Sealings and upkeeps (compaction, roll-ups, retention) within an hour, by node; "
            "they are tried again."
        ),
        empty="nothing failed, or no agent answers",
        queries=(
            Query(f"increase({_FAILED_SEALS}[1h]) > 0", f"{_NODE} sealing"),
            Query(f"increase({_FAILED_UPKEEPS}[1h]) > 0", f"{_NODE} upkeep"),
        ),
        minimum=0,
        links=(TO_NODE,),
    ),
    Lines(
        title="Given up",
        about=(
            "Bytes within a day, by reason. By age: as configured. For the budget: give the store "
            "more room, or retain less. Not uploaded: evidence that is lost."
        ),
        queries=(
            Query(
                f"sum by (reason) (increase({own(agent.STORE_REMOVED_BYTES)}[1d]))", "{{reason}}"
            ),
        ),
        unit="bytes",
        minimum=0,
        empty="nothing was deleted yet, or no agent answers",
        place=places.RETENTION,
    ),
    Lines(
        title="Age of the detectors' memory",
        about="Of the last snapshot of each node, the ten oldest: a restart continues from there.",
        queries=(Query(most(f"time() - {own(agent.SNAPSHOT_TIME)}", BY_NODE), _NODE),),
        unit="s",
        minimum=0,
        links=(TO_NODE,),
    ),
)

SENT = (
    Lines(
        title="Uploaded",
        about="Bytes per second that the object store accepted.",
        queries=(Query(f"sum({rate(own(agent.UPLOAD_BYTES))})", "uploaded"),),
        unit="Bps",
        minimum=0,
        empty=_NO_UPLOAD,
        width=8,
    ),
    Lines(
        title="Oldest waiting file",
        about=(
            "Time since the oldest waiting file of each node was sealed, the ten oldest. It is "
            "lost if the node is rebuilt now."
        ),
        queries=(Query(most(f"time() - {own(agent.UPLOAD_OLDEST)}", BY_NODE), _NODE),),
        unit="s",
        steps=(Step(0, "green"), Step(3600, "red")),
        minimum=0,
        empty="nothing waits, or no agent uploads",
        links=(TO_NODE,),
        width=8,
        place=places.UPLOADS,
    ),
    Lines(
        title="Refused",
        about=("Uploads that failed within the time of a bar, by cause; they are tried again."),
        queries=(Query(f"sum by (cause) ({rose(own(agent.UPLOAD_FAILURES))})", "{{cause}}"),),
        bars=True,
        minimum=0,
        empty="no upload failed, or no agent uploads",
        width=8,
    ),
)

STORE = Dashboard(
    places.STORE,
    "Tocsin / Store",
    "Does every node store its history, and is the evidence uploaded?",
    (*NUMBERS, Row("On the nodes"), *KEPT, Row("To the object store"), *SENT),
    (CLUSTERS, NODES),
    since="now-24h",
)
