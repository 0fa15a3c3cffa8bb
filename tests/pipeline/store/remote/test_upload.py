"""Uploading: what waits, in which order it goes, what is given up first, and how long a
failing store is left alone.
"""

from __future__ import annotations

import errno
import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from pipeline.catalog import agent
from pipeline.selfmetrics import SelfMetrics
from pipeline.store.remote import outbox
from pipeline.store.remote.objects import RefusedError, cause_of, open_objects
from pipeline.store.remote.upload import MAX_BOUND_S, MORE_WAITS_S, upload
from pipeline.store.remote.upload_plan import CAUSES, Plan, Report, Target
from tests.fakes import FakeClock

HOUR = "date=2027-01-15/hour=08"


class Shelf:
    """A store in memory that refuses what its ``refuse`` says, and may lose its answers."""

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}
        self.refuse: Callable[[str], str] = lambda _key: ""
        self.lose_answers = self.write_only = self.half_done = False
        self.after_put: Callable[[], object] = lambda: None
        self.asked: list[str] = []

    def put(self, key: str, file: Path) -> bool:
        self.asked.append(key)
        if cause := self.refuse(key):
            raise RefusedError(cause, "no")
        if key in self.objects or self.half_done:
            return False
        self.objects[key] = file.read_bytes()
        self.after_put()
        if self.lose_answers:
            raise RefusedError("timeout", "no answer")
        return True

    def size(self, key: str) -> int | None:
        if key not in self.objects:
            raise RefusedError("no_bucket", "not there")
        return None if self.write_only else len(self.objects[key])


class Node:
    """A node's storage with files as sealing leaves them."""

    def __init__(self, root: Path) -> None:
        self.root, self.clock, self.shelf, self.rng = root, FakeClock(), Shelf(), random.Random(7)
        self.plan = Plan(Target("/unused"))

    def seal(
        self, seq: int, *tables: str, size: int = 10, page: bool = False, hour: str = HOUR
    ) -> None:
        files = [self.root / table / hour / f"c-n1-b-{seq:016d}.parquet" for table in tables]
        for file in files:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(bytes(size))
        outbox.post(self.root, files, page=page)

    def run(self, *, urgent: bool = False, stop: Callable[[], bool] = lambda: False) -> Report:
        return upload(
            self.root,
            self.plan,
            self.clock,
            self.rng,
            urgent=urgent,
            stop=stop,
            open_=lambda _target: self.shelf,
        )

    def waiting(self) -> list[str]:
        return [p.key for p in outbox.waiting(self.root)]


@pytest.fixture
def node(tmp_path: Path) -> Node:
    """A node with an empty storage folder."""
    return Node(tmp_path)


def test_sealed_files_get_to_the_store_under_the_same_names(node: Node) -> None:
    """The layout there is the layout here, and nothing waits afterwards."""
    node.seal(1, "gpu", "reads")
    report = node.run()
    assert node.shelf.objects.keys() == {
        f"{t}/{HOUR}/c-n1-b-{1:016d}.parquet" for t in ("gpu", "reads")
    }
    assert (report.sent_files, report.sent_bytes, report.pending_files, report.retry_s) == (
        2,
        20,
        0,
        None,
    )
    assert not node.waiting()


def test_pages_go_first_newest_first_then_the_rest_oldest_first(node: Node) -> None:
    """Evidence leaves the node before the backlog; of one segment,
    findings go before measurements.
    """
    node.seal(1, "gpu")
    node.seal(2, "gpu", "findings", page=True)
    node.seal(3, "gpu")
    node.seal(4, "gpu", "findings", page=True)
    node.run()
    order = [(int(key[-24:-8]), key.split("/")[0]) for key in node.shelf.asked]
    assert order == [
        (4, "findings"),
        (4, "gpu"),
        (2, "findings"),
        (2, "gpu"),
        (1, "gpu"),
        (3, "gpu"),
    ]


def test_a_put_whose_answer_was_lost_is_done_at_the_second_try(node: Node) -> None:
    """The retry finds the name taken: nothing is duplicated, nothing waits forever."""
    node.seal(1, "gpu")
    node.shelf.lose_answers = True
    assert node.run().failures == {"timeout": 1}
    node.shelf.lose_answers = False
    node.clock.advance(MAX_BOUND_S)
    assert node.run().sent_files == 1
    assert not node.waiting()


def test_a_name_that_another_object_has_is_told_and_not_tried_for_ever(node: Node) -> None:
    """Two agents with one identity must not lose data in silence."""
    node.seal(1, "gpu", size=10)
    node.shelf.objects[node.waiting()[0]] = b"other"
    report = node.run()
    assert report.failures == {"conflict": 1}
    assert "5 bytes, here 10" in report.error
    assert not node.waiting()


def test_a_write_only_store_is_believed(node: Node) -> None:
    """Where sizes may not be asked for, a name that is taken is ours: nobody else has it."""
    node.seal(1, "gpu")
    node.shelf.objects[node.waiting()[0]] = b"unknown"
    node.shelf.write_only = True
    assert node.run().sent_files == 1


def test_a_name_that_is_taken_without_an_object_is_tried_again(node: Node) -> None:
    """An earlier request that is still under way (S3 answers 409) may yet fail:
    the file goes on waiting.
    """
    node.seal(1, "gpu")
    node.shelf.half_done = True
    assert node.run().failures == {"other": 1}
    node.shelf.half_done = False
    node.clock.advance(MAX_BOUND_S)
    assert node.run().sent_files == 1


@pytest.mark.parametrize(
    "cause", ["throttled", "denied", "no_bucket", "unreachable", "timeout", "clock_skew"]
)
def test_trouble_with_the_store_ends_the_run_at_once(node: Node, cause: str) -> None:
    """One refusal says enough: the others are not tried, and all wait."""
    node.seal(1, "gpu", "reads", "events")
    node.shelf.refuse = lambda _key: cause
    report = node.run()
    assert (len(node.shelf.asked), report.failures, report.pending_files) == (1, {cause: 1}, 3)


def test_trouble_with_one_file_does_not_hold_up_the_others(node: Node) -> None:
    """A file that cannot be read stays; the rest goes."""
    node.seal(1, "gpu", "reads")
    node.seal(2, "gpu")
    node.shelf.refuse = lambda key: "local" if key.startswith("reads") else ""
    report = node.run()
    assert (report.sent_files, report.failures, report.pending_files) == (2, {"local": 1}, 1)


def test_pauses_grow_with_jitter_outlive_the_child_and_stay_bounded(node: Node) -> None:
    """Within a pause nobody asks the store; the bound doubles up to a quarter of an hour."""
    node.seal(1, "gpu")
    node.shelf.refuse = lambda _key: "unreachable"
    pauses = []
    for _ in range(40):
        pause = node.run().retry_s
        assert pause is not None
        asked = len(node.shelf.asked)
        node.clock.advance(pause / 2)
        node.run()
        assert len(node.shelf.asked) == asked or pause <= 1.0
        node.clock.advance(pause / 2 + 1)
        pauses.append(pause)
    assert max(pauses) <= MAX_BOUND_S
    assert max(pauses[:4]) <= 80
    assert max(pauses[10:]) > 400
    assert len(set(pauses)) > 30


def test_a_page_does_not_wait_for_a_pause_to_end(node: Node) -> None:
    """New evidence is tried at once even where the store failed a moment ago."""
    node.seal(1, "gpu")
    node.shelf.refuse = lambda _key: "unreachable"
    node.run()
    node.shelf.refuse = lambda _key: ""
    node.seal(2, "findings", page=True)
    assert node.run(urgent=True).sent_files == 2


def test_a_clock_that_was_far_ahead_does_not_stop_uploads(node: Node) -> None:
    """A pause that would end beyond the longest possible one is none."""
    node.seal(1, "gpu")
    node.clock.step(86_400 * 365)
    node.shelf.refuse = lambda _key: "unreachable"
    node.run()
    node.clock.step(-86_400 * 365)
    node.shelf.refuse = lambda _key: ""
    assert node.run().sent_files == 1


def test_a_run_keeps_to_its_bytes_and_says_when_to_go_on(node: Node) -> None:
    """A backlog of days leaves in portions."""
    for seq in range(10):
        node.seal(seq, "gpu", size=100)
    node.plan = replace(node.plan, run_bytes=350)
    report = node.run()
    assert (report.sent_files, report.pending_files, report.pending_bytes, report.retry_s) == (
        3,
        7,
        700,
        MORE_WAITS_S,
    )
    assert node.waiting()[0].endswith(f"{3:016d}.parquet")


def test_a_file_larger_than_the_budget_still_goes(node: Node) -> None:
    """It goes alone instead of blocking the queue."""
    node.seal(1, "gpu", size=1000)
    node.plan = replace(node.plan, run_bytes=10)
    assert node.run().sent_files == 1


def test_a_run_keeps_to_its_time(node: Node) -> None:
    """A slow store costs what was agreed, no more."""
    for seq in range(10):
        node.seal(seq, "gpu")
    node.shelf.after_put = lambda: node.clock.advance(20)
    assert node.run().sent_files == 2


def test_a_run_ends_where_something_more_urgent_came(node: Node) -> None:
    """A closed segment may hold a page: the next child seals it and comes back to the backlog."""
    for seq in range(10):
        node.seal(seq, "gpu")
    assert node.run(stop=lambda: len(node.shelf.objects) == 4).sent_files == 4


def test_what_is_given_up_first_when_too_much_waits(node: Node) -> None:
    """Oldest routine measurements, then routine events, last what belongs to a page;
    counted in files and bytes.
    """
    node.shelf.refuse = lambda _key: "unreachable"
    node.seal(1, "gpu", "findings", size=100, page=True)
    node.seal(2, "gpu", "events", size=100)
    node.seal(3, "gpu", "events", size=100)
    gone = []
    for most in (500, 400, 300, 200, 100, 0):
        node.plan = replace(node.plan, most_pending_bytes=most)
        before = set(node.waiting())
        report = node.run()
        assert (report.given_up_files, report.given_up_bytes) == (1, 100)
        (key,) = before - set(node.waiting())
        gone.append((int(key[-24:-8]), key.split("/")[0]))
    assert gone == [
        (2, "gpu"),
        (3, "gpu"),
        (2, "events"),
        (3, "events"),
        (1, "gpu"),
        (1, "findings"),
    ]


def test_what_waits_survives_compaction_and_retention(node: Node) -> None:
    """A link keeps the bytes though the sealed file is gone."""
    node.seal(1, "gpu")
    (file,) = node.root.glob("gpu/*/*/*.parquet")
    assert outbox.still_pending(node.root)(file)
    file.unlink()
    assert node.run().sent_files == 1
    assert not outbox.still_pending(node.root)(file)


def test_sealing_again_after_a_crash_sends_nothing_twice(node: Node) -> None:
    """The second put of a name changes nothing in the store."""
    node.seal(1, "gpu")
    node.run()
    node.seal(1, "gpu")
    assert node.run().sent_files == 1
    assert len(node.shelf.objects) == 1


def test_a_damaged_state_costs_one_early_try(node: Node) -> None:
    """The pause is forgotten, nothing else."""
    node.seal(1, "gpu")
    (node.root / outbox.FOLDER / "state.json").write_text('{"failures": "many"')
    assert node.run().sent_files == 1


def test_a_store_that_cannot_be_opened_is_a_failure_like_others(node: Node) -> None:
    """The error names a missing credentials file, and it is tried again: it may be mounted late."""
    node.seal(1, "gpu")
    plan = Plan(Target("s3://bucket", credentials_file=str(node.root / "nowhere")))
    report = upload(node.root, plan, node.clock, node.rng)
    assert report.failures == {"configuration": 1}
    assert "nowhere" in report.error
    assert report.pending_files == 1


def test_a_report_becomes_the_agents_numbers() -> None:
    """Counters add up over runs; what waits and since when is shown only while something waits."""
    metrics = SelfMetrics()
    Report(2, 20, 1, 5, {"denied": 1}, 3, 30, 7.0, 9.0, "denied: no").publish(metrics, 10**9)
    Report(1, 10, pending_files=3, pending_bytes=30, oldest_s=7.0).publish(metrics, 2 * 10**9)
    assert (metrics.value(agent.UPLOAD_FILES), metrics.value(agent.UPLOAD_BYTES)) == (3, 30)
    assert metrics.value(agent.UPLOAD_FAILURES, "denied") == 1
    assert (metrics.value(agent.UPLOAD_PENDING_FILES), metrics.value(agent.UPLOAD_OLDEST)) == (3, 7)
    Report().publish(metrics, 3 * 10**9)
    assert (metrics.value(agent.UPLOAD_PENDING_FILES), metrics.value(agent.UPLOAD_OLDEST)) == (
        0,
        None,
    )
    assert metrics.value(agent.UPLOAD_LAST_SUCCESS) == 2


def test_plan_and_report_survive_the_pipe() -> None:
    """What the agent says to its child, and the child to it, arrives as it was."""
    plan = Plan(Target("s3://b/p", "http://e", "r", "/f", "x", "/ca", 3.5), 1.5, 2, 3)
    report = Report(1, 2, 3, 4, {"other": 5}, 6, 7, 8.5, 9.5, "é\n")
    assert Plan.from_json(plan.to_json()) == plan
    assert Report.from_json(report.to_json()) == report
    assert "\n" not in report.to_json()


def test_a_shared_directory_takes_each_name_once(tmp_path: Path) -> None:
    """Whole or not at all, never overwritten, no scratch file left."""
    share = tmp_path / "share"
    share.mkdir()
    file = tmp_path / "f"
    file.write_bytes(b"first")
    store = open_objects(Target(str(share)))
    assert store.put("gpu/a.parquet", file)
    file.write_bytes(b"second!")
    assert not store.put("gpu/a.parquet", file)
    assert (store.get("gpu/a.parquet"), store.size("gpu/a.parquet"), [*store.names("gpu/")]) == (
        b"first",
        5,
        ["gpu/a.parquet"],
    )
    assert [p.name for p in share.rglob("*")] == ["gpu", "a.parquet"]


def test_a_file_that_a_compactor_removes_while_a_shared_directory_is_listed_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A question goes on: what was removed is in the compacted files."""
    (tmp_path / "gpu").mkdir()
    (tmp_path / "gpu/a").write_bytes(b"12")
    found = [tmp_path / "gpu/a", tmp_path / "gpu/gone"]
    monkeypatch.setattr("pipeline.store.remote.objects.files_below", lambda *_, **__: iter(found))
    assert list(open_objects(Target(str(tmp_path))).sizes("gpu/")) == [("gpu/a", 2)]


def test_a_file_that_the_local_disk_cannot_read_is_no_fault_of_a_shared_directory(
    node: Node, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The others are sent."""
    for seq in (1, 2):
        node.seal(seq, "gpu")
    damaged, read = outbox.waiting(node.root)[0].path, Path.read_bytes

    def reading(path: Path) -> bytes:
        if path == damaged:
            raise OSError(errno.EIO, "Input/output error", str(path))
        return read(path)

    monkeypatch.setattr(Path, "read_bytes", reading)
    (tmp_path / "share").mkdir()
    plan = Plan(Target(str(tmp_path / "share")))
    report = upload(node.root, plan, node.clock, node.rng)
    assert (report.sent_files, report.failures) == (1, {"local": 1})


@pytest.mark.parametrize(
    ("number", "kept"), [(errno.EOPNOTSUPP, True), (errno.EPERM, True), (errno.EDQUOT, False)]
)
def test_a_shared_directory_without_hard_links_takes_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, kept: bool
) -> None:
    """By another name first; a link that fails for another reason is no reason to overwrite."""

    def link(*_: object) -> None:
        raise OSError(number, "no")

    shared, file = tmp_path / "shared", tmp_path / "a.parquet"
    shared.mkdir()
    file.write_bytes(b"1")
    monkeypatch.setattr("os.link", link)
    objects = open_objects(Target(str(shared)))
    if kept:
        assert objects.put("gpu/a", file)
    else:
        with pytest.raises(RefusedError):
            objects.put("gpu/a", file)
    assert [path.name for path in (shared / "gpu").iterdir()] == ["a"] * kept


def test_a_directory_that_is_not_mounted_is_not_created(tmp_path: Path) -> None:
    """Filling the local disk under a mount point would be worse than waiting."""
    file = tmp_path / "f"
    file.write_bytes(b"x")
    with pytest.raises(RefusedError, match="is it mounted") as caught:
        open_objects(Target(str(tmp_path / "mnt"))).put("gpu/a", file)
    assert caught.value.cause == "no_bucket"
    assert not (tmp_path / "mnt").exists()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "has no aws_access_key_id and no aws_secret_access_key"),
        ("[default]\naws_access_key_id = AKIDVERYSECRET\n", "has no aws_secret_access_key"),
        ("AKIDVERYSECRET\n", "has no aws_access_key_id"),
        ("[default]\nAKIDVERYSECRET\n", "has no aws_access_key_id"),
    ],
)
def test_a_bad_credentials_file_is_named_without_its_content(
    tmp_path: Path, content: str, message: str
) -> None:
    """The message helps and gives nothing away."""
    file = tmp_path / "credentials"
    file.write_text(content)
    with pytest.raises(RefusedError, match=message) as caught:
        open_objects(Target("s3://bucket", credentials_file=str(file)))
    assert str(file) in str(caught.value)
    assert "SECRET" not in str(caught.value)


def test_every_cause_is_explained() -> None:
    """Whatever obstore says becomes a label that the table of causes has."""
    words = [
        "status code: 503",
        "status code: 500",
        "status code: 418",
        "kind: Timeout",
        "HTTP error: x",
        "RequestTimeTooSkewed",
        "?",
    ]
    assert {cause_of("GenericError", w) for w in words} <= CAUSES.keys()
