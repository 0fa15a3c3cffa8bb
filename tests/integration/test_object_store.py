"""Uploading to a real S3 server, through a proxy that misbehaves: nothing is lost, doubled or
torn, and no secret is told.
"""

from __future__ import annotations

import io
import json
import random
import time
import zipfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import unquote

import polars as pl
import pyarrow.parquet as pq
import pytest

from collector.cli.main import main
from pipeline import child
from pipeline.catalog import agent
from pipeline.clock import SECOND_NS
from pipeline.finding import Finding
from pipeline.replay import replay
from pipeline.selfmetrics import SelfMetrics
from pipeline.store.keep.writer import StoreWriter, seal_in_child
from pipeline.store.remote import outbox
from pipeline.store.remote.objects import Objects, RefusedError, open_objects
from pipeline.store.remote.upload import MAX_BOUND_S, upload
from pipeline.store.remote.upload_plan import Plan, Report, Target
from tests.fakes import START_NS, FakeClock, gpu, gpu_frame, observed
from tests.faults_proxy import DENIED, INTERNAL, SKEWED, SLOW_DOWN, Fault, FaultsProxy, answer
from tests.integration.moto import BUCKET, fresh_bucket, s3_server
from tests.pipeline.store.keep.test_seal import history, same, store
from tests.wait import PATIENCE_S, until

pytestmark = pytest.mark.integration

SECRETS = ("AKIDOFTHETEST", "the/secret+of=the-test", "token-of-the-test")
QUICKLY = 3  # a request is sent at most so often before it has failed: two quick retries


@pytest.fixture(scope="module")
def server() -> Iterator[int]:
    """Port of moto."""
    with s3_server() as port:
        yield port


@dataclass
class House:
    """A node's storage, a bucket, and the proxy between them."""

    root: Path
    proxy: FaultsProxy
    plan: Plan
    direct: Target
    clock: FakeClock

    def seal(self, seq: int, *, page: bool = False, tables: Sequence[str] = ("gpu",)) -> None:
        """A sealed segment that waits; the content is the number."""
        files = [
            self.root / table / "date=2027-01-15/hour=08" / f"c-n1-b-{seq:016d}.parquet"
            for table in tables
        ]
        for file in files:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(f"content of {seq}".encode() * 1000)
        outbox.post(self.root, files, page=page)

    def run(self) -> Report:
        """One upload."""
        return upload(self.root, self.plan, self.clock, random.Random(1))

    def remote(self) -> Objects:
        """The bucket itself, without the proxy."""
        return open_objects(self.direct)


@pytest.fixture
def house(server: int, tmp_path: Path) -> Iterator[House]:
    """An empty bucket, credentials in a file."""
    fresh_bucket(server)
    file = tmp_path / "credentials"
    names = ("aws_access_key_id", "aws_secret_access_key", "aws_session_token")
    file.write_text(
        "[default]\n" + "".join(f"{n} = {s}\n" for n, s in zip(names, SECRETS, strict=True))
    )
    with FaultsProxy(server) as proxy:
        target = Target(f"s3://{BUCKET}/fleet/a", proxy.url, "us-east-1", str(file), timeout_s=2)
        direct = replace(target, endpoint=f"http://127.0.0.1:{server}")
        yield House(tmp_path / "node", proxy, Plan(target), direct, FakeClock())


FAULTS = {
    "500": (answer(INTERNAL), "server_error"),
    "503 SlowDown": (answer(SLOW_DOWN), "throttled"),
    "403": (answer(DENIED), "denied"),
    "clock skew": (answer(SKEWED), "clock_skew"),
    "404 bucket": (answer((404, "<Error><Code>NoSuchBucket</Code></Error>")), "no_bucket"),
    "reset": (Fault("reset"), "unreachable"),
    "half of the request": (Fault("half_request"), "unreachable"),
    "half of the answer": (Fault("half"), "unreachable"),
    "answer lost": (Fault("lost"), "unreachable"),
    "no answer": (Fault("stall"), "timeout"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_that_passes_costs_nothing(house: House, name: str) -> None:
    """While it lasts everything waits and its cause is told; afterwards every object
    is there once and whole.
    """
    fault, cause = FAULTS[name]
    for seq in range(3):
        house.seal(seq)
    wanted = {p.key: p.path.read_bytes() for p in outbox.waiting(house.root)}
    house.proxy.always = fault
    failed = house.run()
    # An object whose answer was lost is found by the quick retry: sent after all.
    if name not in ("half of the answer", "answer lost"):
        assert (failed.sent_files, failed.failures, failed.pending_files) == (0, {cause: 1}, 3)
    house.proxy.always = None
    house.clock.advance(MAX_BOUND_S)
    last = house.run()
    assert failed.sent_files + last.sent_files == 3
    assert {key: house.remote().get(key) for key in house.remote().names("gpu/")} == wanted
    assert not outbox.waiting(house.root)


@pytest.mark.parametrize(
    "name", ["500", "503 SlowDown", "reset", "half of the answer", "answer lost"]
)
def test_a_blip_is_not_even_a_failure(house: House, name: str) -> None:
    """One bad answer is retried within the request."""
    house.seal(1)
    house.proxy.faults.append(FAULTS[name][0])
    report = house.run()
    assert (report.sent_files, report.failures) == (1, {})


def test_a_store_in_trouble_is_left_alone(house: House) -> None:
    """A run of many files against a throttling store sends a handful of
    requests, not one per file.
    """
    for seq in range(50):
        house.seal(seq)
    house.proxy.always = answer(SLOW_DOWN)
    house.run()
    assert len(house.proxy.seen) <= QUICKLY


def test_a_missing_bucket_is_told_by_the_server_itself(house: House) -> None:
    """Also without our proxy's help."""
    house.seal(1)
    house.plan = replace(house.plan, target=replace(house.direct, url="s3://no-such-bucket/x"))
    assert house.run().failures == {"no_bucket": 1}


def test_a_server_that_is_down_is_unreachable(house: House) -> None:
    """A closed port is a cause like others."""
    house.seal(1)
    house.plan = replace(house.plan, target=replace(house.direct, endpoint="http://127.0.0.1:9"))
    assert house.run().failures == {"unreachable": 1}


def test_an_answer_that_repeats_our_secrets_is_not_repeated_by_us(house: House) -> None:
    """Servers put keys and signed requests into their errors; our messages hold none."""
    house.seal(1)
    echo = (
        "<Error><Code>SignatureDoesNotMatch</Code>"
        + " ".join(SECRETS)
        + "?X-Amz-Signature=0123abcd&amp;x=1</Error>"
    )
    house.proxy.always = answer((403, echo))
    report = house.run()
    assert report.failures == {"denied": 1}
    assert "SignatureDoesNotMatch" in report.error
    assert not [secret for secret in (*SECRETS, "0123abcd") if secret in report.error]


def test_an_outage_of_days_ends_with_everything_there_in_order(house: House) -> None:
    """Three days of quarter hours wait, then go: pages first, the oldest of
    the rest before the newest.
    """
    house.proxy.always = Fault("reset")
    for seq in range(3 * 96):
        house.seal(seq, page=seq == 200)
        house.clock.advance(900)
        if seq % 96 == 0:
            assert house.run().sent_files == 0
    house.proxy.always = None
    house.proxy.seen.clear()
    house.clock.advance(MAX_BOUND_S)
    assert house.run().sent_files == 3 * 96
    order = [
        int(path.rpartition("-")[2].partition(".")[0])
        for method, path, _ in house.proxy.seen
        if method == "PUT"
    ]
    assert order == [200, *range(200), *range(201, 3 * 96)]


def test_of_sixteen_that_create_one_key_one_wins(house: House) -> None:
    """The store itself decides: put-if-absent holds under a race, and
    the winner's content stays.
    """
    files = []
    for i in range(16):
        file = house.root / f"candidate-{i}"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(bytes([i]) * 4096)
        files.append(file)
    with ThreadPoolExecutor(16) as pool:
        won = list(pool.map(lambda file: house.remote().put("gpu/one", file), files))
    assert won.count(True) == 1
    assert house.remote().get("gpu/one") == files[won.index(True)].read_bytes()


def test_what_was_uploaded_replays_and_reads_like_what_was_written(
    house: House, tmp_path: Path
) -> None:
    """Sealed, uploaded, fetched: the same observations bit for bit; polars reads
    the bucket as it stands.
    """
    seen = history(clock := FakeClock(), 60)
    store(house.root, seen, clock)
    outbox.post(house.root, house.root.glob("*/date=*/hour=*/*.parquet"), page=False)
    assert house.run().pending_files == 0
    for key in house.remote().names(""):
        file = tmp_path / "fetched" / key
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(house.remote().get(key))
    same(list(replay(tmp_path / "fetched")), seen)
    options = {
        "aws_endpoint_url": house.direct.endpoint,
        "aws_allow_http": "true",
        "aws_access_key_id": "a",
        "aws_secret_access_key": "b",
        "aws_region": "us-east-1",
    }
    there = pl.scan_parquet(
        f"s3://{BUCKET}/fleet/a/gpu/**/*.parquet", storage_options=options, hive_partitioning=False
    )
    (local,) = house.root.glob("gpu/*/*/*.parquet")
    columns = ["device", "seq", "energy_millijoules"]
    assert (
        there.select(columns).collect().rows()
        == pl.read_parquet(local, columns=columns, hive_partitioning=False).rows()
    )


def test_a_page_overtakes_a_backlog(house: House) -> None:
    """From the agent's sink through real children to the server, while a slow store is busy with a
    backlog of half a minute: ten seconds' worth of requests may come before it.
    """
    for seq in range(100):
        house.seal(seq)
    house.proxy.delay_s = 0.3
    keeper = StoreWriter(
        house.root,
        "n1",
        house.clock,
        SelfMetrics(),
        seal=seal_in_child(house.root, "c1", house.plan),
    )
    began = time.monotonic()

    def read(*findings: Finding) -> None:
        """One more read, at the real time's pace."""
        house.clock.advance(
            time.monotonic() - began - (house.clock.monotonic_ns() - start_ns) / 1e9
        )
        frame = gpu_frame(house.clock, {"power_milliwatts": 1})
        keeper.write(observed(house.clock, frame, seq=house.clock.monotonic_ns()), findings)

    start_ns = house.clock.monotonic_ns()
    read()
    until(lambda: len(house.proxy.seen) > 3, "the backlog on its way")
    before = len(house.proxy.seen)
    read(Finding("xid", gpu(0), "xid", "onset", "page", 1, 1, "Lost.", "RESTART_BM"))

    def gone() -> bool:
        read()
        return any("/findings/" in path for _, path, _ in house.proxy.seen)

    until(gone, "the page's finding on its way")
    assert len(house.proxy.seen) - before <= 10 / house.proxy.delay_s
    until(lambda: list(house.remote().names("findings/")), "the finding in the bucket")
    assert len(outbox.waiting(house.root)) > 50
    house.proxy.delay_s = 0
    keeper.close(30)


def test_a_child_killed_while_uploading_leaves_nothing_undone(house: House) -> None:
    """SIGKILL in the middle of a request: the next child sends the rest, and what was sent
    before is not there twice.
    """
    for seq in range(6):
        house.seal(seq)
    house.proxy.faults.extend([None, None, None, Fault("stall")])
    process = child.Child(
        child.python("pipeline.store.keep.seal", str(house.root), "c1", house.plan.to_json())
    )
    try:
        until(lambda: len(house.proxy.seen) == 4, "the fourth request")
    finally:
        process.kill()
        process.wait(PATIENCE_S)
    assert len(outbox.waiting(house.root)) == 3
    assert house.run().sent_files == 3
    assert len([*house.remote().names("gpu/")]) == 6


def test_the_child_reports_on_standard_output_and_the_agent_shows_it(house: House) -> None:
    """A real child, a refusing store: the keeper counts the failure, shows what
    waits, and comes back later.
    """
    house.seal(1)
    house.proxy.always = answer(DENIED)
    metrics = SelfMetrics()
    keeper = StoreWriter(
        house.root, "n1", house.clock, metrics, seal=seal_in_child(house.root, "c1", house.plan)
    )
    keeper.seal_closed(0)
    keeper.close(30)
    assert metrics.value(agent.UPLOAD_FAILURES, "denied") == 1
    assert (metrics.value(agent.UPLOAD_PENDING_FILES), metrics.value(agent.UPLOAD_FILES)) == (1, 0)


def test_an_export_out_of_a_bucket_is_that_of_the_directory(
    house: House, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`tocsin export` of s3:// fetches what it needs, of the right hosts and hours,
    and gives the same tables.
    """
    clock = FakeClock()
    clock.advance(3600 - 30)
    seen = history(clock, 60)
    store(house.root, seen, clock)
    outbox.post(house.root, house.root.glob("*/date=*/hour=*/*.parquet"), page=False)
    assert house.run().pending_files == 0
    target = house.direct
    away = [
        "--storage.upload.endpoint",
        target.endpoint,
        "--storage.upload.credentials-file",
        target.credentials_file,
    ]
    away += ["--storage.upload.region", target.region]
    what = [
        "export",
        "--device",
        "gpu-0",
        "--since",
        "2027-01-15T08:50",
        "--until",
        "2027-01-15T09:00",
    ]
    assert (
        main([*what, "-o", str(tmp_path / "here" / "x.zip"), "--storage.path", str(house.root)])
        == 2
    )
    (tmp_path / "here").mkdir()
    (tmp_path / "there").mkdir()
    assert (
        main([*what, "-o", str(tmp_path / "here" / "x.zip"), "--storage.path", str(house.root)])
        == 0
    )
    assert (
        main([*what, "-o", str(tmp_path / "there" / "x.zip"), "--storage.path", target.url, *away])
        == 0
    )
    here, there = (tables_in(tmp_path / where / "x.zip") for where in ("here", "there"))
    assert here == there
    before_nine = [o for o, _ in seen if o.frames and o.time_ns < START_NS + 3600 * SECOND_NS]
    assert len(here["x/tables/gpu.parquet"]) == len(before_nine) > 0
    missing = ["--storage.path", "s3://no-such-bucket/x", *away]
    assert main([*what, "-o", str(tmp_path / "no.zip"), *missing]) == 1
    assert "no-such-bucket" in capsys.readouterr().err
    assert not (tmp_path / "no.zip").exists()


def tables_in(path: Path) -> dict[str, list[dict[str, object]]]:
    """The rows of every table of an export."""
    with zipfile.ZipFile(path) as archive:
        names = [name for name in archive.namelist() if name.endswith(".parquet")]
        return {name: pq.read_table(io.BytesIO(archive.read(name))).to_pylist() for name in names}


@pytest.mark.parametrize(
    ("url", "condition", "there"),
    [
        ("gs://bucket/fleet", "x-goog-if-generation-match: 0", 412),
        ("az://container/fleet", "if-none-match: *", 409),
        ("abfss://container@account.dfs.core.windows.net/fleet", "if-none-match: *", 409),
    ],
)
def test_other_clouds_are_asked_to_create_only(
    url: str, condition: str, there: int, tmp_path: Path
) -> None:
    """No server of theirs is to be had: what we send, and how we take their documented
    answers, is checked instead.
    """
    file = tmp_path / "file"
    file.write_bytes(b"x" * 10)
    with FaultsProxy(0, methods=("PUT", "HEAD")) as cloud:
        target = Target(url, cloud.url, credentials_file=str(tmp_path / "credentials"), timeout_s=2)
        facts = {
            "gcs_base_url": cloud.url,
            "disable_oauth": True,
            "client_email": "",
            "private_key": "",
            "private_key_id": "",
        }
        (tmp_path / "credentials").write_text(
            json.dumps(facts) if url.startswith("gs") else "sv=2022&sig=SIGNATURE"
        )
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("AZURE_STORAGE_ACCOUNT_NAME", "account")
            store = open_objects(target)
        cloud.faults.extend(
            answer(a) for a in ((201, ""), (there, ""), (403, "sig=SIGNATURE"), (404, ""))
        )
        assert store.put("gpu/a.parquet", file)
        assert not store.put("gpu/a.parquet", file)
        causes = []
        for _ in range(2):
            with pytest.raises(RefusedError) as refused:
                store.put("gpu/a.parquet", file)
            causes.append(refused.value.cause)
            assert "SIGNATURE" not in str(refused.value)
        assert causes == ["denied", "no_bucket"]
        assert all(condition in head for head in cloud.heads)
        assert "/fleet/gpu/a.parquet" in unquote(cloud.seen[0][1])


@pytest.mark.parametrize(("url", "there"), [("gs://bucket/fleet", 404), ("s3://bucket/fleet", 204)])
def test_an_object_is_removed_by_a_request_that_every_store_has(
    url: str, there: int, tmp_path: Path
) -> None:
    """Not by S3's DeleteObjects, and what is gone already is no error, whatever a store answers."""
    facts = {"disable_oauth": True, "client_email": "", "private_key": "", "private_key_id": ""}
    keys = "[default]\naws_access_key_id = a\naws_secret_access_key = b\n"
    with FaultsProxy(0, methods=("DELETE", "POST")) as cloud:
        file = tmp_path / "credentials"
        google = json.dumps({**facts, "gcs_base_url": cloud.url})
        file.write_text(google if url.startswith("gs") else keys)
        store = open_objects(Target(url, cloud.url, "us-east-1", str(file), timeout_s=2))
        cloud.always = answer((there, ""))
        store.remove("gpu/a.parquet")
        cloud.always = answer(DENIED)
        with pytest.raises(RefusedError) as refused:
            store.remove("gpu/a.parquet")
    assert refused.value.cause == "denied"
    assert {(method, unquote(path)) for method, path, _ in cloud.seen} == {
        ("DELETE", "/bucket/fleet/gpu/a.parquet")
    }


def test_a_get_of_nothing_and_a_list_of_a_refusing_store_are_told_apart(house: House) -> None:
    """Readers of a remote store get the same causes."""
    with pytest.raises(RefusedError) as missing:
        house.remote().get("gpu/none")
    house.proxy.methods, house.proxy.always = ("GET",), answer(DENIED)
    with pytest.raises(RefusedError) as denied:
        list(open_objects(house.plan.target).names("gpu/"))
    assert (missing.value.cause, denied.value.cause) == ("no_bucket", "denied")
