"""A hint reaches the job that asked for it, as its own user, and nobody else."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from collector.hint.give import write
from collector.hint.given import Given
from collector.hint.hints import give, hint, predicted
from collector.hint.post import post
from collector.hint.subscription import Subscription, subscription
from collector.integrations.agent_client import Problem, read
from detectors.faults import FAULTS
from pipeline import child
from pipeline.child import Child, Finished
from tests.collector.integrations.answers import LOST, document
from tests.parts import need
from tests.wait import PATIENCE_S, until

PREDICTS = next(name for name, fault in FAULTS.items() if fault.prediction)
PROBLEM = Problem("5a2e", "ticket", "NONE", PREDICTS, "gpu", "GPU-03", "GPU 3", "Soon.", False)
SHOWN = "0123456789abcdef"
NOW, HOUR = 1_800_000_000.0, 3600.0


def process(folder: Path, *rows: str, caught: int = 0) -> Path:
    """A /proc with process 7 of user 1000."""
    (folder / "7").mkdir(parents=True)
    ids = "Uid:\t1000\t1000\t1000\t1000\nGid:\t100\t100\t100\t100"
    (folder / "7" / "status").write_text(f"Name:\tx\n{ids}\nSigCgt:\t{caught:016x}\n")
    (folder / "7" / "environ").write_bytes(b"\0".join(row.encode() for row in rows))
    (folder / "7" / "stat").write_text("7 (x) S 1" + " 0" * 48)
    return folder


@pytest.mark.parametrize(
    ("rows", "caught", "wants"),
    [
        (["TOCSIN_CHECKPOINT_FILE=/home/ada/run/hint.json"], 0, ("/home/ada/run/hint.json", 0)),
        (["TOCSIN_CHECKPOINT_SIGNAL=USR1"], 1 << 9, ("", 10)),
        (["TOCSIN_CHECKPOINT_SIGNAL=USR1"], 1 << 11, None),
        (["TOCSIN_CHECKPOINT_SIGNAL=KILL"], ~0 & (1 << 64) - 1, None),
        (["TOCSIN_CHECKPOINT_FILE=../x"], 0, None),
        (["TOCSIN_CHECKPOINT_FILE=/home/../etc/x"], 0, None),
        (["PATH=/bin"], 0, None),
        (["TOCSIN_CHECKPOINT_PORT=8123"], 0, None),
        (["TOCSIN_CHECKPOINT_PORT=80", f"TOCSIN_CHECKPOINT_TOKEN={SHOWN}"], 0, None),
    ],
)
def test_only_what_was_asked_for_and_can_be_taken(
    rows: list[str], caught: int, wants: tuple[str, int] | None, tmp_path: Path
) -> None:
    """A signal without a handler would end the process, and a path that steps upwards is none."""
    found = subscription(process(tmp_path, *rows, caught=caught), 7)
    assert (found and (found.file, found.signal)) == wants
    assert found is None or (found.user, found.group) == (1000, 100)


def test_a_port_is_asked_for_with_a_token(tmp_path: Path) -> None:
    """The token is no part of what is passed on: arguments of a process are for all to read."""
    rows = ["TOCSIN_CHECKPOINT_PORT=8123", f"TOCSIN_CHECKPOINT_TOKEN={SHOWN}"]
    found = subscription(process(tmp_path, *rows), 7)
    assert found is not None
    assert found.port == 8123
    assert SHOWN not in repr(found)


class Job(BaseHTTPRequestHandler):
    """Answers every POST with the server's status, and keeps what came."""

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        came = (self.path, self.headers["Authorization"], json.loads(body))
        self.server.came, status = came, self.server.status  # type: ignore[attr-defined]
        self.send_response(status)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Nothing."""


@pytest.mark.parametrize("status", [204, 401])
def test_the_job_is_shown_its_own_token(status: int) -> None:
    """One POST on loopback; an answer other than 2xx is an error."""
    with HTTPServer(("127.0.0.1", 0), Job) as server:
        server.status = status  # type: ignore[attr-defined]
        job = threading.Thread(target=server.handle_request)
        job.start()
        refused = pytest.raises(OSError, match="401") if status == 401 else contextlib.nullcontext()
        with refused:
            post(server.server_port, SHOWN, '{"id": "1"}')
        job.join()
    came = server.came  # type: ignore[attr-defined]
    assert came == ("/checkpoint", f"Bearer {SHOWN}", {"id": "1"})


@pytest.mark.parametrize("answer", [b"", b"no HTTP\r\n\r\n"])
def test_what_answers_no_http_is_an_error(answer: bytes) -> None:
    """Whatever listens on the port."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(4096)
                connection.sendall(answer)

        job = threading.Thread(target=serve)
        job.start()
        with pytest.raises(OSError, match="port"):
            post(server.getsockname()[1], SHOWN, "{}")
        job.join()


def test_a_token_that_no_header_can_have_is_an_error() -> None:
    """It would be another header."""
    with socket.create_server(("127.0.0.1", 0)) as server, pytest.raises(OSError, match="header"):
        post(server.getsockname()[1], "a\r\nHost: b", "{}")


def test_only_predictions_about_gpus_are_hints() -> None:
    """A GPU that is lost already is no reason to save."""
    soon = LOST | {"class": PREDICTS, "severity": "ticket"}
    assert [one.fault for one in predicted(read(document(LOST, soon)))] == [PREDICTS]


def test_a_process_gets_one_hint_per_horizon(tmp_path: Path) -> None:
    """Then the next, with another id; another process of the same number gets its own."""
    who, one = Subscription(7, 1000, 100, "/x/y", 0, 0, 5), hint(PROBLEM, NOW, HOUR)
    assert set(one) == {"id", "at", "gpu_uuid", "reason", "probability", "horizon_s", "expires"}
    given = Given(tmp_path / "hints.json")
    assert given.due(who, one, NOW) == who
    given.note(who, one, {"file": ""}, NOW)
    given.write(NOW)
    given = Given(tmp_path / "hints.json")
    assert given.due(who, one, NOW + HOUR - 1) is None
    assert given.due(replace(who, started=6), one, NOW) is not None
    assert given.due(who, one, NOW + HOUR) == who
    assert hint(PROBLEM, NOW + HOUR, HOUR)["id"] != one["id"]


def test_a_channel_that_failed_is_tried_again_and_one_that_worked_never(tmp_path: Path) -> None:
    """Three times in all, also where each run is another process."""
    file, one = tmp_path / "hints.json", hint(PROBLEM, NOW, HOUR)
    who = Subscription(7, 1000, 100, "/x/y", 10, 8123, 5)
    tried = []
    for minute in range(5):
        given, now = Given(file), NOW + 60 * minute
        reported = given.due(who, one, now)
        tried.append(reported.channels if reported else ())
        if reported is not None:
            outcomes = {name: "full" if name == "file" else "" for name in reported.channels}
            given.note(reported, one, outcomes, now)
            given.write(now)
    assert tried == [("file", "signal", "port"), ("file",), ("file",), (), ()]


def test_what_is_not_known_of_a_signal_is_not_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    """A port that is silent until the deadline fails; a file that was not reached is tried again,
    and then the signal was not sent either.
    """
    who = Subscription(7, 1000, 100, "/x/y", 10, 8123, 5)
    said = b'["file", ""]\n'
    for out, failed in ((said, {"port"}), (b"", {"file", "signal", "port"})):
        done = Finished(None, out, b"", timed_out=True)
        monkeypatch.setattr(child, "run", lambda *_, done=done, **__: done)
        outcomes = give(who, hint(PROBLEM, NOW, HOUR))
        assert {name for name, why in outcomes.items() if why} == failed


def test_root_is_posted_to_in_a_network_of_its_own_alone(tmp_path: Path) -> None:
    """By nobody: containers often run as root, and the node's own loopback is not theirs."""
    rows = [
        *("TOCSIN_CHECKPOINT_FILE=/x/y", "TOCSIN_CHECKPOINT_SIGNAL=USR1"),
        *("TOCSIN_CHECKPOINT_PORT=8123", f"TOCSIN_CHECKPOINT_TOKEN={SHOWN}"),
    ]
    proc = process(tmp_path, *rows, caught=1 << 9)
    status = (proc / "7" / "status").read_text()
    (proc / "7" / "status").write_text(status.replace("1000", "0"))
    for who in ("self", "7"):
        (proc / who / "ns").mkdir(parents=True)
    (proc / "self" / "ns" / "net").touch()
    os.link(proc / "self" / "ns" / "net", proc / "7" / "ns" / "net")
    assert subscription(proc, 7) is None
    (proc / "7" / "ns" / "net").unlink()
    (proc / "7" / "ns" / "net").touch()
    found = subscription(proc, 7)
    assert found is not None
    assert (found.user, found.channels) == (65534, ("port",))


def test_the_file_is_replaced_and_no_link_is_followed(tmp_path: Path) -> None:
    """A job that puts a link there, or names another one's folder, gets an error."""
    folder = tmp_path / "home" / "run"
    folder.mkdir(parents=True)
    (folder / "hint.json").symlink_to(tmp_path / "shadow")
    write(tmp_path, "/home/run/hint.json", "{}")
    assert (folder / "hint.json").read_text() == "{}"
    assert not (folder / "hint.json").is_symlink()
    assert not (tmp_path / "shadow").exists()
    (tmp_path / "home" / "link").symlink_to(folder)
    with pytest.raises(OSError):  # noqa: PT011 - which one is the kernel's
        write(tmp_path, "/home/link/hint.json", "{}")
    assert [one.name for one in folder.iterdir()] == ["hint.json"]


JOB = """
import ctypes, os, signal, time
libc = ctypes.CDLL(None)
os.setgid({user})
os.setuid({user})
libc.prctl(4, 1, 0, 0, 0)  # PR_SET_DUMPABLE, as after the exec of a job
signal.signal(signal.SIGUSR1, lambda *_: (print("told", flush=True)))
print("ready", flush=True)
while True:
    time.sleep(60)
"""


@pytest.fixture
def reachable() -> Iterator[Path]:
    """A folder that other users can enter: pytest's own are private."""
    with TemporaryDirectory(prefix="hint") as name:
        Path(name).chmod(0o755)
        yield Path(name)


@pytest.mark.slow
@pytest.mark.root
def test_a_job_of_another_user_is_told(reachable: Path) -> None:
    """Written as nobody into nobody's folder, with the signal; another user's folder is refused,
    which does not cost the signal.
    """
    user = 65534
    own, roots = reachable / "own", reachable / "roots"
    own.mkdir()
    roots.mkdir()
    os.chown(own, user, user)
    job = Child([sys.executable, "-c", JOB.format(user=user)])
    try:
        until(lambda: b"ready" in (job.receive(0.1) or b""), what="the job")
        who = Subscription(job.pid, user, user, str(own / "hint.json"), int(signal.SIGUSR1))
        assert give(who, hint(PROBLEM, NOW, HOUR)) == {"file": "", "signal": ""}
        until(lambda: b"told" in (job.receive(0.1) or b""), what="the signal")
        assert (own / "hint.json").stat().st_uid == user
        assert json.loads((own / "hint.json").read_text())["gpu_uuid"] == "GPU-03"
        refused = Subscription(job.pid, user, user, str(roots / "hint.json"), int(signal.SIGUSR1))
        outcomes = give(refused, hint(PROBLEM, NOW, HOUR))
        assert "another user's folder" in outcomes["file"]
        assert outcomes["signal"] == ""
        until(lambda: b"told" in (job.receive(0.1) or b""), what="the signal again")
        assert not list(roots.iterdir())
    finally:
        job.kill()
        until(lambda: job.poll() is not None, what="its end")


POD = """
import ctypes, json, os, socket, subprocess, sys
from http.server import BaseHTTPRequestHandler, HTTPServer
subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
class Job(BaseHTTPRequestHandler):
    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        print("told", self.path, self.headers["Authorization"], self.client_address[0], flush=True)
        self.send_response(307)
        self.send_header("Location", sys.argv[2])
        self.end_headers()
    def log_message(self, *_):
        pass

server = HTTPServer(("127.0.0.1", 18123), Job)
libc = ctypes.CDLL(None)
user = int(sys.argv[1])
os.setgid(user)
os.setuid(user)
libc.prctl(4, 1, 0, 0, 0)  # PR_SET_DUMPABLE, as after the exec of a job
print("ready", flush=True)
server.serve_forever()
"""


@pytest.mark.slow
@pytest.mark.root
@pytest.mark.parametrize(("user", "giver"), [(65533, 65533), (0, 65534)], ids=["user", "root"])
def test_a_pod_is_told_on_its_own_loopback(user: int, giver: int) -> None:
    """In a real network namespace, where nothing of the node's loopback is reached: a server on the
    same port there hears nothing, and no redirection leads to it.
    """
    unshare, _ = need("unshare", "util-linux"), need("ip", "iproute2")
    with socket.create_server(("127.0.0.1", 0)) as nodes:
        elsewhere = f"http://127.0.0.1:{nodes.getsockname()[1]}/admin"
        environment = {
            **os.environ,
            "TOCSIN_CHECKPOINT_PORT": "18123",
            "TOCSIN_CHECKPOINT_TOKEN": SHOWN,
        }
        argv = [unshare, "-n", sys.executable, "-c", POD, str(user), elsewhere]
        pod = Child(argv, env=environment)
        try:
            until(lambda: b"ready" in (pod.receive(0.1) or b""), what="the pod")
            who = subscription(Path("/proc"), pod.pid)
            assert who is not None
            assert (who.user, who.channels) == (giver, ("port",))
            assert give(who, hint(PROBLEM, NOW, HOUR)) == {"port": "port 18123 answered 307"}
            heard = pod.receive(PATIENCE_S) or b""
            assert heard.decode().split() == [
                "told", "/checkpoint", "Bearer", SHOWN, "127.0.0.1",
            ]  # fmt: skip
            nodes.settimeout(0)
            with pytest.raises(BlockingIOError):
                nodes.accept()
        finally:
            pod.kill()
            until(lambda: pod.poll() is not None, what="its end")
