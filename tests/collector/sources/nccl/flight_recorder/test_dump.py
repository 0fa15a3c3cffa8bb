"""Flight Recorder dumps: what each rank launched and completed, in every schema, and
nothing from what is no dump.
"""

from __future__ import annotations

import contextlib
import json
import pickle
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.sources.nccl.flight_recorder.dump import parse_dump
from collector.sources.nccl.sanitize import FormatError
from pipeline.nccl.member import KEPT_OPERATIONS, Member
from pipeline.nccl.report import Communicator, Report
from tests.collector.sources.nccl.recordings import DUMPS

MISSING = {0: (6, 5), 1: (6, 5), 2: (5, 5)}
MISSING_2 = {0: (5, 4), 1: (5, 4), 2: (4, 4)}
TYPE_MIX = {0: (5, 4), 1: (5, 4), 2: (5, 4)}
EXPECTED = [
    *((f"fr_gloo_missing_rank{r}.json", r, p) for r, p in MISSING.items()),
    *(
        (f"fr_gloo_missing2_rank{r}.{form}", r, p)
        for r, p in MISSING_2.items()
        for form in ("json", "pickle")
    ),
    *(
        (f"fr_gloo_typemix_rank{r}.{form}", r, p)
        for r, p in TYPE_MIX.items()
        for form in ("json", "pickle")
    ),
]


def read(name: str) -> Report:
    """A recorded dump."""
    return parse_dump((DUMPS / name).read_bytes(), name)


def only(report: Report) -> tuple[Communicator, Member]:
    """The one group of a dump, and the dumping rank in it."""
    (found,) = report.communicators
    return found, found.members[0]


def entry(seq: int, **fields: Any) -> dict[str, Any]:
    """A made-up entry of an NCCL all_reduce."""
    base = {
        "record_id": seq,
        "pg_id": 0,
        "process_group": ["tp_3", "tensor"],
        "collective_seq_id": seq,
        "is_p2p": False,
    }
    return {
        **base,
        "profiling_name": "nccl:all_reduce",
        "state": "scheduled",
        "retired": False,
        **fields,
    }


@pytest.mark.parametrize(("name", "rank", "progress"), EXPECTED)
def test_recorded_dumps_tell_the_progress_of_their_rank(
    name: str, rank: int, progress: tuple[int, int]
) -> None:
    """Launched and completed are those of the recorded situation, though pg_status
    lags behind the entries.
    """
    report = read(name)
    group, member = only(report)
    assert (report.world_rank, member.world_rank) == (rank, rank)
    assert (dict(member.launched)["*"], dict(member.completed)["*"]) == progress
    assert (group.ranks, group.size, member.rank) == ((0, 1, 2), 3, rank)


@pytest.mark.parametrize(
    "name", [n.removesuffix(".pickle") for n, _, _ in EXPECTED if n.endswith(".pickle")]
)
def test_pickle_and_json_of_one_moment_say_the_same(name: str) -> None:
    """The two forms differ in types only."""
    assert read(f"{name}.pickle").communicators == read(f"{name}.json").communicators


def test_operations_say_what_each_rank_called() -> None:
    """At 5 the rank in the minority calls a broadcast, the others an all_reduce."""
    assert [
        only(read(f"fr_gloo_typemix_rank{r}.json"))[1].operations[-1].name for r in range(3)
    ] == [
        "all_reduce",
        "broadcast",
        "all_reduce",
    ]


@pytest.mark.parametrize(
    ("fields", "completed"),
    [
        ({"state": "completed"}, 1),
        ({"time_discovered_completed_ns": 7}, 1),
        ({"state": "started"}, 0),
        ({"retired": True}, 0),
        ({"retired": True, "profiling_name": "gloo:all_reduce"}, 1),
    ],
)
def test_what_counts_as_completed(fields: dict[str, Any], completed: int) -> None:
    """A state, a time, or for gloo that it is retired; NCCL also retires what was given up."""
    _, member = only(parse_dump(json.dumps({"entries": [entry(1, **fields)]}).encode()))
    assert dict(member.completed)["*"] == completed


def test_collectives_called_together_are_one_call_that_ends_with_its_last_entry() -> None:
    """Each of them stays scheduled for ever: none of an earlier call is waited for, and one that
    has not got to the last entry has called the same as the others.
    """

    def together(seq: int, state: str) -> list[dict[str, Any]]:
        each = [entry(seq, profiling_name="nccl:_all_gather_base") for _ in range(2)]
        return [*each, entry(seq, profiling_name="nccl:coalesced", state=state)]

    entries = [*together(1, "completed"), *together(2, "started"), *together(3, "scheduled")[:1]]
    _, member = only(parse_dump(json.dumps({"entries": entries}).encode()))
    assert [(o.seq, o.name, o.started, o.completed) for o in member.operations] == [
        (1, "_all_gather_base", True, True),
        (2, "_all_gather_base", True, False),
        (3, "_all_gather_base", False, False),
    ]


def test_the_list_of_pytorch_2_2_is_read() -> None:
    """A bare list whose entries have seq_id and no group: the group is known by its number."""
    group, member = only(
        parse_dump(
            pickle.dumps([{"pg_id": 1, "seq_id": n, "state": "completed"} for n in (1, 2)], 2)
        )
    )
    assert (group.id, dict(member.launched), dict(member.completed)) == ("1", {"*": 2}, {"*": 2})


def test_groups_are_known_by_name_and_status_by_local_number() -> None:
    """Two groups have the same local number on different ranks: only names distinguish them."""
    document = {
        "pg_config": {"tp_3": {"ranks": "[6, 7]"}, "dp_1": {"ranks": "[3, 7]"}},
        "pg_status": {"0": {"last_enqueued_collective": "9", "last_completed_collective": "8"}},
        "entries": [entry(4)],
    }
    groups = {
        c.id: c for c in parse_dump(json.dumps(document).encode(), "dump_rank_7").communicators
    }
    tensor, data = groups["tp_3"].members[0], groups["dp_1"].members[0]
    assert (dict(tensor.launched), dict(tensor.completed), tensor.rank) == ({"*": 9}, {"*": 8}, 1)
    assert (dict(data.launched), data.rank) == ({"*": 0}, 1)


def test_sends_and_receives_are_no_collectives() -> None:
    """Point-to-point calls have a sequence of their own."""
    _, member = only(
        parse_dump(
            json.dumps(
                {"entries": [entry(1), entry(50, is_p2p=True, profiling_name="nccl:send 0->1")]}
            ).encode()
        )
    )
    assert dict(member.launched) == {"*": 1}


def send(seq: int, number: int) -> dict[str, Any]:
    """A send that is over, after so many collectives."""
    return entry(
        seq, is_p2p=True, p2p_seq_id=number, profiling_name="nccl:send 0->1", state="completed"
    )


@pytest.mark.parametrize(
    ("entries", "progress"),
    [
        ([send(3, 199), entry(4, state="completed"), send(4, 200), entry(5)], (5, 4)),
        ([send(3, 199), entry(4), send(4, 200)], (4, 3)),
        ([send(4, 199), send(4, 200)], (4, 4)),
        ([send(0, 199), send(0, 200)], None),
    ],
)
def test_numbers_of_sends_are_none_of_collectives(
    entries: list[dict[str, Any]], progress: tuple[int, int] | None
) -> None:
    """PyTorch's status has the number of the last operation of either kind, of which each rank
    sends another number: ranks that compute would wait for one another.
    """
    status = {"last_enqueued_collective": 200, "last_completed_collective": 200}
    document = {"entries": entries, "pg_status": {"0": status}}
    _, member = only(parse_dump(json.dumps(document).encode()))
    found = tuple(n for counts in (member.launched, member.completed) for _, n in counts)
    assert found == (progress or ())


def test_the_innermost_line_of_the_users_code_is_kept() -> None:
    """PyTorch's own frames do not show the caller."""
    frames = [
        {"name": "all_reduce", "filename": "/x/torch/distributed/c10d.py", "line": 1},
        {"name": "step", "filename": "/job/train.py", "line": 42},
    ]
    _, member = only(parse_dump(pickle.dumps({"entries": [entry(1, frames=frames)]}, 2)))
    assert member.operations[0].frame == "/job/train.py:42 step"


@pytest.mark.slow
def test_of_a_full_ring_the_latest_operations_are_kept() -> None:
    """The counts come from all entries, the operations from the last ones."""
    _, member = only(
        parse_dump(json.dumps({"entries": [entry(n) for n in range(1, 2001)]}).encode())
    )
    assert dict(member.launched) == {"*": 2000}
    assert [o.seq for o in member.operations] == list(range(2001 - KEPT_OPERATIONS, 2001))


def test_entries_that_are_none_are_dropped_and_counted() -> None:
    """Wrong types are missing fields; an entry without a number is no entry."""
    report = parse_dump(
        json.dumps({"entries": [entry(1, input_sizes="x", frames=3), 7, None, {"a": 1}]}).encode()
    )
    assert report.parsed == (("entry", 1),)
    assert [d.count for d in report.discarded] == [3]


def test_ranks_are_digits_and_are_never_evaluated() -> None:
    """Text that is a program is only looked at for its numbers."""
    document = {
        "pg_config": {"tp_3": {"ranks": "__import__('os').abort() or [1, 2]"}},
        "entries": [entry(1)],
    }
    group, _ = only(parse_dump(json.dumps(document).encode()))
    assert group.ranks == (1, 2)


def test_a_pickle_that_contains_itself_is_read() -> None:
    """Shapes are walked, never everything: a cycle has no end."""
    cycle: dict[str, Any] = {"entries": [entry(1)]}
    cycle["pg_status"] = cycle
    assert only(parse_dump(pickle.dumps(cycle, 2)))[1].launched == (("*", 1),)


@pytest.mark.parametrize(
    "data",
    [b"", b"hello", b"{}", b"[1]", b'{"entries": {}}', b"[" * 100_000, b'{"entries": [{"a": 1}]}'],
)
def test_what_is_no_dump_is_refused(data: bytes) -> None:
    """Other JSON, other text, and nothing."""
    with pytest.raises(FormatError):
        parse_dump(data)


@given(st.binary(max_size=60), st.integers(0, 1500), st.integers(0, 40))
def test_no_bytes_raise_anything_but_its_own_error(junk: bytes, at: int, cut: int) -> None:
    """Junk anywhere in a dump gives a report or FormatError."""
    whole = (DUMPS / "fr_gloo_missing2_rank1.json").read_bytes()
    with contextlib.suppress(FormatError):
        parse_dump(whole[:at] + junk + whole[at + cut :])


VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=9),
    st.lists(st.integers(), max_size=3),
)
FIELDS = [
    "pg_id",
    "process_group",
    "collective_seq_id",
    "profiling_name",
    "state",
    "input_sizes",
    "input_dtypes",
    "frames",
    "is_p2p",
]


@pytest.mark.slow
@given(
    st.lists(st.dictionaries(st.sampled_from(FIELDS), VALUES), max_size=4),
    st.dictionaries(st.sampled_from(["0", ""]), VALUES),
)
def test_fields_of_any_type_do_no_harm(
    entries: list[dict[str, Any]], status: dict[str, Any]
) -> None:
    """A field of the wrong type is a missing field."""
    with contextlib.suppress(FormatError):
        parse_dump(pickle.dumps({"entries": entries, "pg_status": status, "pg_config": status}, 2))
