"""The verdict: who is named, and who is not, for every way in which a job can stall."""

from __future__ import annotations

import random
import time
from collections.abc import Iterable
from dataclasses import replace

import pytest

from detectors.nccl.case import Case, GpuFault
from detectors.nccl.jobs import cases
from detectors.nccl.judge import judge
from detectors.nccl.verdict import Verdict
from pipeline.nccl.member import WHOLE, Operation
from pipeline.nccl.report import Process, Report
from tests.detectors.nccl.jobs import all_reduces, dump, process, ras, ras_communicator, twice


def of(reports: Iterable[Report]) -> Verdict:
    """The verdict on one job."""
    return judge(Case(tuple(reports)))


def ranks(verdict: Verdict) -> list[int]:
    """Who is named, by rank in the job."""
    return sorted(c.rank for c in verdict.culprits)


def pids(verdict: Verdict) -> list[int]:
    """Who is named, by process."""
    return sorted(c.pid for c in verdict.culprits)


def test_of_a_chain_only_the_last_is_to_blame() -> None:
    """With counts 12, 12, 11, 10 the third has begun operation 11 and waits for the fourth,
    which alone waits for none.
    """
    verdict = of(twice(ras_communicator("c0", all_reduces({0: 12, 1: 12, 2: 11, 3: 10}))))
    assert (verdict.cause, ranks(verdict)) == ("host_hang", [3])
    assert verdict.victims == 3


def test_the_lowest_counter_of_one_group_may_be_a_victim_of_another() -> None:
    """Rank 1 is behind in the world because it waits for rank 3 in its tensor
    group; rank 3 is the root.
    """
    world = ras_communicator("c0", all_reduces({0: 9, 1: 8, 2: 9, 3: 8}))
    tensor = ras_communicator("c1", all_reduces({1: 50, 3: 49}))
    assert ranks(of(twice(world, tensor))) == [3]


def test_two_that_are_late_on_their_own_are_both_named() -> None:
    """Two groups that wait for a rank each have two culprits."""
    world = ras_communicator("c0", all_reduces(dict.fromkeys(range(8), 5)))
    first = ras_communicator("c1", all_reduces({0: 7, 1: 7, 2: 7, 3: 6}))
    second = ras_communicator("c2", all_reduces({4: 7, 5: 7, 6: 6, 7: 7}))
    assert ranks(of(twice(world, first, second))) == [3, 6]


def test_one_look_names_nobody() -> None:
    """A rank that is merely late looks the same: it is a candidate until a second report agrees."""
    verdict = of([ras(ras_communicator("c0", all_reduces({0: 12, 1: 11})))])
    assert (verdict.cause, verdict.phase, verdict.culprits) == ("unknown", "suspect", ())
    assert [c.rank for c in verdict.candidates] == [1]


@pytest.mark.parametrize("gap", [0.0, 1.0, 14.0])
def test_looks_that_are_too_close_are_one(gap: float) -> None:
    """Two reports must be 15 s apart to confirm each other; the same report given twice is one."""
    late = ras_communicator("c0", all_reduces({0: 12, 1: 11}))
    assert of([ras(late), ras(late, at=gap)]).phase == "suspect"


def test_counts_that_differ_and_move_are_a_pipeline() -> None:
    """Skew is normal where counts rise from one look to the next."""
    before, after = all_reduces({0: 12, 1: 11}), all_reduces({0: 14, 1: 13})
    verdict = of([ras(ras_communicator("c0", before)), ras(ras_communicator("c0", after), at=20.0)])
    assert (verdict.cause, verdict.culprits, verdict.candidates) == ("no_evidence", (), ())


def test_a_lost_process_is_named_at_one_look() -> None:
    """What does not answer is no matter of being late."""
    verdict = of([ras(ras_communicator("c0", all_reduces(dict.fromkeys(range(7), 3)), gone=[7]))])
    assert (verdict.cause, ranks(verdict), verdict.phase) == ("process_lost", [7], "confirmed")


def test_a_lost_process_explains_who_fell_behind_for_it() -> None:
    """Rank 2 is behind in the world because it waits for rank 3, which is
    gone: rank 2 is not named.
    """
    world = ras_communicator("c0", all_reduces({0: 9, 1: 9, 2: 8}), gone=[3])
    pair = ras_communicator("c1", all_reduces({2: 5}), gone=[3])
    assert ranks(of(twice(world, pair))) == [3]


def test_where_all_ranks_of_a_node_are_lost_it_is_the_node() -> None:
    """Four processes of one node that do not answer are one culprit: the node."""
    verdict = of(
        [ras(ras_communicator("c0", all_reduces(dict.fromkeys(range(4), 3)), gone=[4, 5, 6, 7]))]
    )
    assert [(c.host, c.pid) for c in verdict.culprits] == [(process(4)[0], -1)]


def test_equal_counts_that_stand_still_stay_a_suspicion() -> None:
    """RAS counts launches: when all have launched the same it cannot distinguish a stall in
    flight from a checkpoint.
    """
    verdict = of(twice(ras_communicator("c0", all_reduces(dict.fromkeys(range(4), 7)))))
    assert (verdict.cause, verdict.phase, verdict.culprits) == ("unknown", "suspect", ())


def test_ranks_that_called_different_operations_are_a_fault_of_the_program() -> None:
    """One AllReduce more here and one AllGather more there: none is late."""
    counts = dict.fromkeys(range(3), (("AllGather", 4), ("AllReduce", 8))) | {
        3: (("AllGather", 5), ("AllReduce", 7))
    }
    verdict = of(twice(ras_communicator("c0", counts)))
    assert (verdict.cause, ranks(verdict)) == ("order_mismatch", [3])


def test_half_against_half_has_no_minority() -> None:
    """Where two of four ranks called something else, the fault is named and no rank."""
    counts = dict.fromkeys((0, 1), (("AllGather", 4), ("AllReduce", 8))) | dict.fromkeys(
        (2, 3), (("AllGather", 5), ("AllReduce", 7))
    )
    verdict = of(twice(ras_communicator("c0", counts)))
    assert (verdict.cause, verdict.culprits) == ("order_mismatch", ())


def test_a_circle_is_a_deadlock() -> None:
    """Rank 0 waits for rank 1 in one communicator, rank 1 for rank 0 in the other:
    launched in opposite order.
    """
    a, b = (
        ras_communicator("c0", all_reduces({0: 4, 1: 3})),
        ras_communicator("c1", all_reduces({0: 6, 1: 7})),
    )
    verdict = of(twice(a, b))
    assert (verdict.cause, verdict.culprits, verdict.stage) == (
        "launch_order_deadlock",
        (),
        "launch",
    )


def test_all_in_flight_names_the_group_and_no_rank() -> None:
    """The data group is in flight, the world waits behind it: what all have begun does not end."""
    members = {"0": range(4), "dp": (0, 1)}
    reports = [dump(r, {"0": (7, 7), "dp": (5, 4)}, members) for r in (0, 1)] + [
        dump(r, {"0": (8, 7)}, members) for r in (2, 3)
    ]
    verdict = of(reports)
    assert (verdict.cause, verdict.culprits, verdict.communicator) == ("in_flight", (), "dp")


def test_the_recorder_names_who_never_came() -> None:
    """Ranks 0 and 1 have begun operation 6, rank 2 has not."""
    verdict = of([dump(0, {"0": (6, 5)}), dump(1, {"0": (6, 5)}), dump(2, {"0": (5, 5)})])
    assert (verdict.cause, ranks(verdict), verdict.operation, verdict.sequence) == (
        "host_hang",
        [2],
        "all_reduce",
        6,
    )


def test_a_group_in_which_nobody_waits_is_no_evidence() -> None:
    """The pipeline's group was made and not used yet: nobody is late in it."""
    late = {0: (6, 5), 1: (6, 5), 2: (5, 5)}
    verdict = of([dump(rank, {"0": at, "pp": (0, 0)}) for rank, at in late.items()])
    assert (ranks(verdict), verdict.communicator) == ([2], "0")
    assert not [e.text for e in verdict.evidence if "pp" in e.text]


def test_the_evidence_says_where_the_culprits_code_was_last() -> None:
    """The line that made its last call: what comes after it is what it is stuck in."""
    calls = {("0", 5): Operation(5, "all_reduce", frame="train.py:88 step", completed=True)}
    verdict = of(
        [dump(0, {"0": (6, 5)}), dump(1, {"0": (6, 5)}), dump(2, {"0": (5, 5)}, calls=calls)]
    )
    assert "all_reduce #5 at train.py:88 step" in verdict.evidence[0].text


def test_dumps_of_a_job_that_moves_name_nobody() -> None:
    """Ranks write one after the other, so that one is a call behind; but none had
    waited for long when it wrote.
    """
    soon = -3600 + 6 + 2.0  # two seconds after call number 6
    reports = [
        dump(0, {"0": (6, 5)}, at=soon),
        dump(1, {"0": (6, 5)}, at=soon),
        dump(2, {"0": (5, 5)}, at=soon - 1),
    ]
    assert judge(Case(reports, live=True)).culprits == ()
    assert ranks(of(reports)) == [2]  # saved files are of a stalled job


def test_a_rank_without_a_dump_is_no_culprit() -> None:
    """Nothing is known of it: it is a candidate, and what the others wait for stays open."""
    members = {"0": range(3)}
    verdict = of([dump(0, {"0": (6, 5)}, members), dump(1, {"0": (6, 5)}, members)])
    assert (verdict.cause, verdict.culprits) == ("unknown", ())
    assert [c.rank for c in verdict.candidates] == [2]


def test_a_missing_dump_does_not_hide_who_is_behind() -> None:
    """Rank 2 is known to be behind; that rank 3 wrote nothing changes nothing."""
    members = {"0": range(4)}
    reports = [
        dump(0, {"0": (6, 5)}, members),
        dump(1, {"0": (6, 5)}, members),
        dump(2, {"0": (5, 5)}, members),
    ]
    assert ranks(of(reports)) == [2]


def test_a_rank_that_never_called_its_group_is_behind() -> None:
    """A dump in which a group does not occur says that nothing was called there."""
    members = {"0": range(3), "tp": (0, 2)}
    reports = [
        dump(0, {"0": (4, 4), "tp": (1, 0)}, members),
        dump(1, {"0": (4, 4)}, members),
        dump(2, {"0": (4, 4)}, members),
    ]
    assert ranks(of(reports)) == [2]


def test_other_sizes_at_one_place_are_a_mismatch() -> None:
    """All called all_reduce number 6, one with another number of elements."""
    odd = {("0", 6): Operation(6, "all_reduce", ("Float",), ((7,),))}
    verdict = of(
        [dump(0, {"0": (6, 5)}), dump(1, {"0": (6, 5)}), dump(2, {"0": (6, 5)}, calls=odd)]
    )
    assert (verdict.cause, ranks(verdict)) == ("order_mismatch", [2])


def test_uneven_operations_may_differ_in_size() -> None:
    """Ranks give all_to_all what they have; that is no mismatch."""
    calls = {r: {("0", 6): Operation(6, "all_to_all", ("Float",), ((r + 1,),))} for r in range(3)}
    verdict = of([dump(r, {"0": (6, 5)}, {"0": range(3)}, calls=calls[r]) for r in range(3)])
    assert verdict.cause == "in_flight"


def test_old_dumps_of_an_earlier_stall_do_not_count() -> None:
    """A dump that was written before the others called what they wait in is of another time."""
    old = [dump(r, {"0": (3, 2)}, at=-7200.0) for r in range(3)]
    assert ranks(
        of([*old, dump(0, {"0": (6, 5)}), dump(1, {"0": (6, 5)}), dump(2, {"0": (5, 5)})])
    ) == [2]


@pytest.mark.parametrize("offset", [-30.0, 30.0])
def test_clocks_of_nodes_may_differ(offset: float) -> None:
    """Half a minute between the clocks of nodes changes no verdict."""
    reports = [
        dump(0, {"0": (6, 5)}),
        dump(1, {"0": (6, 5)}, at=offset),
        dump(2, {"0": (5, 5)}, at=-offset),
    ]
    assert ranks(of(reports)) == [2]


def test_a_job_that_was_started_again_is_another_one() -> None:
    """The same communicators under other processes say nothing of the processes before; the
    old counts confirm nothing.
    """
    before = ras_communicator("c0", all_reduces({0: 9, 1: 8}), seed=1)
    after = ras_communicator("c0", all_reduces({0: 9, 1: 8}), seed=2)
    verdict = of([ras(before), ras(after, at=20.0)])
    assert verdict.culprits == ()
    assert [c.pid for c in verdict.candidates] == [process(1, seed=2)[1]]


def test_two_jobs_of_one_node_get_a_verdict_each() -> None:
    """RAS reports are joined by their processes, so that each job is judged alone."""
    hung = twice(ras_communicator("c0", all_reduces({0: 9, 1: 8}), seed=1))
    well = twice(ras_communicator("c9", all_reduces({0: 5, 1: 5}), seed=2))
    found = {judge(case).cause: judge(case) for case in cases([*hung, *well])}
    assert pids(found["host_hang"]) == [process(1, seed=1)[1]]
    assert found["unknown"].culprits == ()


def test_dumps_of_two_jobs_are_told_apart_by_their_names() -> None:
    """Both have a rank 0: what is written under one name belongs together."""
    a = [dump(r, {"0": (6 - (r == 2), 5)}, origin=f"/a/rank_{r}") for r in range(3)]
    b = [dump(r, {"0": (6 - (r == 1), 5)}, origin=f"/b/rank_{r}") for r in range(3)]
    mixed = [*a, *b]
    random.Random(3).shuffle(mixed)
    assert sorted(ranks(judge(case)) for case in cases(mixed)) == [[1], [2]]


def test_recorder_and_ras_agree_on_one_rank() -> None:
    """The communicator that holds the whole job numbers it: two sources name one culprit, with
    more confidence than either.
    """
    network = twice(ras_communicator("c0", all_reduces({0: 12, 1: 12, 2: 11})))
    dumps = [dump(0, {"0": (6, 5)}), dump(1, {"0": (6, 5)}), dump(2, {"0": (5, 5)})]
    verdict = of([*network, *dumps])
    assert [(c.rank, c.pid) for c in verdict.culprits] == [(2, process(2)[1])]
    assert verdict.confidence > max(of(network).confidence, of(dumps).confidence)


def test_an_untrusted_report_counts_for_nothing() -> None:
    """Not even a process that it calls dead."""
    lie = replace(
        ras(ras_communicator("c0", all_reduces({0: 3}), gone=[1])),
        distrust="sums do not add up",
        dead=(Process("h", 1),),
    )
    assert of([lie]).cause == "no_evidence"


def test_a_teardown_is_no_stall() -> None:
    """Ranks that finish differ as they should."""
    ending = ras_communicator(
        "c0", all_reduces({0: 3, 1: 2, 2: 3}), states={0: "finalize", 2: "abort"}
    )
    verdict = of(twice(ending))
    assert (verdict.cause, verdict.stage) == ("no_evidence", "finalize")


def test_a_victims_error_names_nobody() -> None:
    """Result code 6 says that another process failed."""
    communicator = ras_communicator("c0", all_reduces(dict.fromkeys(range(4), 3)))
    first, *others = communicator.members
    verdict = of([ras(replace(communicator, members=(replace(first, error=6), *others)))])
    assert (verdict.culprits, verdict.candidates) == ((), ())
    assert any("victim" in e.text for e in verdict.evidence)


def test_a_rank_that_reports_a_cuda_error_is_a_candidate_until_an_xid_decides() -> None:
    """Result code 1 is an unhandled CUDA error of that rank: a program's, or the GPU's."""
    communicator = ras_communicator("c0", all_reduces(dict.fromkeys(range(4), 3)))
    first, *others = communicator.members
    failed = replace(first, error=1, uuid="GPU-7")
    report = ras(replace(communicator, members=(failed, *others)))
    alone = of([report])
    assert (alone.cause, alone.culprits, [c.rank for c in alone.candidates]) == ("unknown", (), [0])
    verdict = judge(Case((report,), gpus=(GpuFault("GPU-7", "XID 95 of GPU-7"),)))
    assert (verdict.cause, ranks(verdict)) == ("hardware_fault", [0])


def test_a_reply_without_a_time_that_was_saved_twice_proves_nothing() -> None:
    """Text bears no time: only what moved between two of them shows that time went by."""
    stuck = ras_communicator("c0", all_reduces({0: 12, 1: 12, 2: 12, 3: 10}))
    before, after = (
        ras_communicator("c1", all_reduces(dict.fromkeys(range(4, 8), n))) for n in (50, 60)
    )
    same = replace(ras(stuck, before), time_ns=0)
    assert of([same, same]).culprits == ()
    later = replace(ras(stuck, after), time_ns=0)
    verdict = of([same, later])
    assert (verdict.cause, pids(verdict)) == ("host_hang", [process(3)[1]])


def test_a_rank_that_still_works_elsewhere_is_late_and_not_stuck() -> None:
    """A group that is used once in a while waits for a rank whose own group moves on."""
    rare = ras_communicator("c0", all_reduces({0: 12, 1: 12, 2: 12, 3: 11}))
    before, after = (
        ras_communicator("c1", all_reduces({2: n, 3: n}), second="0x2:0x2") for n in (50, 60)
    )
    verdict = of([ras(rare, before), ras(rare, after, at=20.0)])
    assert (verdict.phase, verdict.culprits) == ("suspect", ())
    standing = ras_communicator("c1", all_reduces({2: 60, 3: 60}), second="0x2:0x2")
    verdict = of([ras(rare, before), ras(rare, after, at=20.0), ras(rare, standing, at=40.0)])
    assert (verdict.cause, ranks(verdict)) == ("host_hang", [3])


def test_a_culprit_is_named_by_its_nvml_index_and_uuid() -> None:
    """``CUDA_VISIBLE_DEVICES=5`` makes GPU 5 the CUDA device 0 of its process."""
    communicator = ras_communicator("c0", all_reduces({0: 12, 1: 12, 2: 12, 3: 10}))
    *others, last = communicator.members
    seen = replace(communicator, members=(*others, replace(last, gpu=0, nvml=5, uuid="GPU-5")))
    verdict = of(twice(seen))
    assert "GPU 5 (CUDA device 0, GPU-5)" in verdict.culprits[0].words()
    (culprit,) = verdict.document()["culprits"]
    assert (culprit["gpu"], culprit["nvml_index"], culprit["gpu_uuid"]) == (0, 5, "GPU-5")


def test_a_rank_that_only_scheduled_what_others_started_is_behind() -> None:
    """Its GPU is busy with something before it."""
    groups = {"0": (7, 6)}
    members = {"0": range(4)}
    dumps = [dump(rank, groups, members) for rank in range(4)]
    started = [
        replace(
            report,
            communicators=tuple(
                replace(c, members=(replace(c.members[0], started=((WHOLE, n),)),))
                for c in report.communicators
            ),
        )
        for report, n in zip(dumps, (7, 7, 6, 7), strict=True)
    ]
    verdict = of(started)
    assert (verdict.cause, ranks(verdict)) == ("host_hang", [2])
    assert any("scheduled but has not started all_reduce #7" in e.text for e in verdict.evidence)
    assert of(dumps).culprits == ()


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
def test_the_order_of_files_and_the_place_of_the_culprit_do_not_matter(seed: int) -> None:
    """Ranks, hosts, pids, file names and their order are shuffled; the
    verdict names the same rank.
    """
    dice = random.Random(seed)
    late, size = dice.randrange(16), 16
    counts = {r: 40 - (r == late) for r in range(size)}
    node = late // 4
    inner = {r: 90 - (r == late) for r in range(node * 4, node * 4 + 4)}
    reports = twice(
        ras_communicator("c0", all_reduces(counts), seed=seed),
        ras_communicator("c1", all_reduces(inner), seed=seed),
    )
    dumps = [
        dump(r, {"0": (counts[r], 39)}, origin=f"/x/{dice.getrandbits(32):x}_r{r}.pickle")
        for r in range(size)
    ]
    mixed = [*reports, *dumps]
    dice.shuffle(mixed)
    verdict = of(mixed)
    assert [(c.rank, c.pid) for c in verdict.culprits] == [(late, process(late, seed=seed)[1])]


@pytest.mark.slow
def test_a_thousand_ranks_take_less_than_a_second() -> None:
    """1,024 ranks in a world, 128 node groups and 8 rails, two reports, one late rank: the whole
    verdict within a second.
    """
    late, size = 777, 1024
    world = ras_communicator("c0", all_reduces({r: 9 - (r == late) for r in range(size)}))
    nodes = [
        ras_communicator(f"a{n}", all_reduces(dict.fromkeys(range(n * 8, n * 8 + 8), 5)))
        for n in range(128)
    ]
    reports = twice(world, *nodes)
    begin = time.process_time()
    verdict = of(reports)
    assert time.process_time() - begin < 1.0
    assert ranks(verdict) == [late]


@pytest.mark.slow
def test_a_thousand_different_counts_take_less_than_a_second() -> None:
    """The worst a report can do: every rank at another place."""
    reports = twice(
        ras_communicator(
            "c0", {r: (("AllGather", r % 37), ("AllReduce", 5000 + r)) for r in range(1024)}
        )
    )
    begin = time.process_time()
    of(reports)
    assert time.process_time() - begin < 1.0
