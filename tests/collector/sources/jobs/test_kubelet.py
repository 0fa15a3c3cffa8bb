"""The kubelet's client against a real gRPC server: versions, slow and broken servers,
every form of device id.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path
from threading import Event, Thread

import grpc
import pytest

from collector.sources.jobs.gpus import Gpus
from collector.sources.jobs.kubelet.client import MAX_ID, Kubelet, KubeletError
from collector.sources.jobs.kubelet.grpc import GrpcError, call
from pipeline.frame import Device
from tests.collector.sources.jobs.kubelet import GOLDEN, claim, listing, message, pod, serving
from tests.wait import PATIENCE_S

LIST = "/v1.PodResourcesLister/List"
UUIDS = [f"GPU-{n}{n}{n}{n}{n}{n}{n}{n}-1111-2222-3333-444444444444" for n in range(3)]
# Index and number of the device file differ, as on nodes whose PCI order is not the
# order of their device files.
GPUS = Gpus(
    [
        Device("n1", "gpu", u, {"index": str(i), "minor_number": str(2 - i)})
        for i, u in enumerate(UUIDS)
    ],
    [Device("n1", "gpu_instance", "MIG-aaaa", {"gpu_uuid": UUIDS[1], "gpu_instance": "7"})],
    {"MIG-cccc": "MIG-aaaa", "MIG-dddd": "MIG-gone"},
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where the kubelet's socket is."""
    return tmp_path / "kubelet.sock"


def held(path: Path, *resources: str) -> list[tuple[str, str, dict[str, str]]]:
    """UUID, instance and facts of everything that is held."""
    return [(h.uuid, h.instance, dict(h.facts)) for h in Kubelet(path, resources).holdings(GPUS)]


def test_a_pod_s_gpu_is_its_own(path: Path) -> None:
    """Pod, namespace and container of a GPU by its UUID."""
    with serving(path, {"List": listing(pod("train-0", [UUIDS[0]]), pod("idle"))}):
        assert held(path) == [
            (UUIDS[0], "", {"pod": "train-0", "namespace": "ml", "container": "main"})
        ]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("device_id", "uuid", "instance", "replica"),
    [
        (UUIDS[0], UUIDS[0], "", ""),
        (f"{UUIDS[0]}::3", UUIDS[0], "", "3"),
        (f"{UUIDS[0]}/vgpu2", UUIDS[0], "", "2"),
        ("MIG-aaaa", UUIDS[1], "7", ""),
        ("MIG-aaaa::1", UUIDS[1], "7", "1"),
        ("MIG-cccc", UUIDS[1], "7", ""),
        (f"MIG-{UUIDS[0]}/5/0", UUIDS[0], "5", ""),
        ("nvidia0", UUIDS[2], "", ""),
        ("nvidia0/gi1", UUIDS[2], "1", ""),
        ("nvidia2/gi1/vgpu4", UUIDS[0], "1", "4"),
        ("nvidia1/vgpu0", UUIDS[1], "", "0"),
    ],
)
def test_every_form_of_a_device_id(
    path: Path, device_id: str, uuid: str, instance: str, replica: str
) -> None:
    """UUIDs, MIG of new and old drivers, shares of time slicing and GKE's device files name their
    GPU, instance and share.
    """
    with serving(path, {"List": listing(pod("a", [device_id]))}):
        ((found, inside, facts),) = held(path)
    assert (found, inside, facts.get("replicas", "")) == (uuid, instance, replica)


@pytest.mark.parametrize(
    "device_id",
    [
        "GPU-unknown",
        "nvidia9",
        "",
        "::",
        "nvidia0/gi",
        "MIG-bbbb",
        "MIG-dddd",
        "../../etc",
        "\u0660",
    ],
)
def test_a_device_that_is_not_here_is_nobody_s(path: Path, device_id: str) -> None:
    """An id the node does not know is left out; it never lands on another GPU."""
    with serving(path, {"List": listing(pod("a", [device_id]))}):
        assert held(path) == []


def test_a_device_that_no_gpu_has_is_unread(path: Path) -> None:
    """A device id that is not here is counted once. One that is no GPU's is not."""
    pods = listing(
        pod("a", ["MIG-bbbb", UUIDS[0]]),
        pod("b", ["MIG-bbbb", "GPU-" + "9" * 1000]),
        pod("c", ["eth0"], resource="example.com/nic"),
    )
    kubelet = Kubelet(path)
    with serving(path, {"List": pods}):
        assert [h.facts["pod"] for h in kubelet.holdings(GPUS)] == ["a"]
        reported = [(u.reason, u.device[:8], u.field) for u in kubelet.unread]
        assert reported == [
            ("unknown GPU", "MIG-bbbb", "kubelet"),
            ("unknown GPU", "GPU-9999", "kubelet"),
        ]
        assert max(len(u.device) for u in kubelet.unread) == MAX_ID


def test_pods_on_compute_instances_of_one_gpu_instance_have_it_together(path: Path) -> None:
    """Each of them is a device of its own, whichever pod came last."""
    kubelet = Kubelet(path)
    pods = [pod("a", ["MIG-aaaa"]), pod("b", ["MIG-cccc"])]
    for listed in (pods[:1], pods):
        with serving(path, {"List": listing(*listed)}):
            held = [(h.uuid, h.instance, h.facts["pod"]) for h in kubelet.holdings(GPUS)]
    assert held == [(UUIDS[1], "7", "a"), (UUIDS[1], "7", "b")]


def test_nothing_is_unread_before_any_gpu_is_known(path: Path) -> None:
    """The kubelet may answer before the driver does; a later answer reports only what it lacks."""
    kubelet = Kubelet(path)
    answer = [listing(pod("a", ["MIG-bbbb"]))]
    with serving(path, {"List": lambda _request, _context: answer[0]}):
        assert kubelet.holdings(Gpus([])) == []
        assert kubelet.unread == []
        kubelet.holdings(GPUS)
        assert len(kubelet.unread) == 1
        answer[0] = listing(pod("a", [UUIDS[0]]))
        kubelet.holdings(GPUS)
        assert kubelet.unread == []


def test_only_gpus_count(path: Path) -> None:
    """Other resources whose ids look like a GPU's are no GPUs, unless they are named as such;
    MIG and renamed shares are.
    """
    pods = listing(
        pod("a", [UUIDS[0]], resource="example.com/nic"),
        pod("b", [UUIDS[1]], resource="nvidia.com/mig-1g.10gb"),
        pod("c", [UUIDS[2]], resource="nvidia.com/gpu.shared"),
    )
    with serving(path, {"List": pods}):
        assert [facts["pod"] for _, _, facts in held(path)] == ["b", "c"]
        assert [facts["pod"] for _, _, facts in held(path, "example.com/nic")] == ["a", "b", "c"]


def test_a_finished_pod_that_is_still_listed_gives_way_to_the_next(path: Path) -> None:
    """A GPU that is not shared has one pod at a time: who is listed with it later has it
    now (kubernetes#132020).
    """
    answer = [listing(pod("finished", [UUIDS[0]]))]
    kubelet = Kubelet(path)

    def pods() -> list[str]:
        return [h.facts["pod"] for h in kubelet.holdings(GPUS)]

    with serving(path, {"List": lambda _request, _context: answer[0]}):
        assert pods() == ["finished"]
        answer[0] = listing(
            pod("finished", [UUIDS[0]]), pod("running", [UUIDS[0]]), pod("other", [UUIDS[1]])
        )
        assert pods() == ["running", "other"]
        assert pods() == ["running", "other"]
        answer[0] = listing(pod("finished", [UUIDS[0]]))
        assert pods() == ["finished"]


def test_pods_that_were_always_listed_together_are_both_reported(path: Path) -> None:
    """An agent that starts later cannot know which of them has finished."""
    with serving(path, {"List": listing(pod("a", [UUIDS[0]]), pod("b", [UUIDS[0]]))}):
        assert [facts["pod"] for _, _, facts in held(path)] == ["a", "b"]


@pytest.mark.parametrize(
    ("device_id", "resource"), [(f"{UUIDS[0]}::1", "nvidia.com/gpu"), (UUIDS[0], "example.com/gpu")]
)
def test_pods_that_share_a_gpu_come_and_go_side_by_side(
    path: Path, device_id: str, resource: str
) -> None:
    """A share, or a device of a plugin of unknown ways, is no one pod's: who comes
    later takes nothing away.
    """
    first, second = (pod(name, [device_id], resource=resource) for name in "ab")
    answer = [listing(first)]
    kubelet = Kubelet(path, ["example.com/gpu"])
    with serving(path, {"List": lambda _request, _context: answer[0]}):
        assert len(kubelet.holdings(GPUS)) == 1
        answer[0] = listing(first, second)
        assert [h.facts["pod"] for h in kubelet.holdings(GPUS)] == ["a", "b"]


def test_a_claim_names_its_gpu_by_device_file(path: Path) -> None:
    """A GPU of NVIDIA's DRA driver is found by its number, and the claim is reported; another
    driver's device is no GPU.
    """
    pods = listing(
        pod("a", claim=claim("c", "gpu-0")),
        pod("b", claim=claim("d", "gpu-1", driver="example.com")),
    )
    with serving(path, {"List": pods}):
        ((uuid, _, facts),) = held(path)
    assert uuid == UUIDS[2]
    assert {facts[name] for name in ("claim", "claim_namespace", "claim_device")} == {
        "c",
        "ml",
        "gpu-0",
    }


def test_an_old_kubelet_is_asked_in_its_own_version(path: Path) -> None:
    """A kubelet that knows v1alpha1 only is understood."""
    with serving(path, {"List": GOLDEN}, service="v1alpha1.PodResourcesLister"):
        assert [p.name for p in Kubelet(path).pods()] == ["train-0"]


def test_a_server_without_the_api_is_named(path: Path) -> None:
    """Neither version: the message says which were tried."""
    with serving(path, {}), pytest.raises(KubeletError, match="neither v1 nor v1alpha1"):
        Kubelet(path).pods()


def test_what_could_be_given_out_is_counted(path: Path) -> None:
    """Devices of all NUMA nodes by resource; other resources are left out."""
    rows = [
        ("nvidia.com/gpu", UUIDS[:2]),
        ("nvidia.com/gpu", UUIDS[2:]),
        ("example.com/nic", ["n"]),
    ]
    answer = message(
        *((1, message((1, resource), *((2, i) for i in ids))) for resource, ids in rows)
    )
    with serving(path, {"GetAllocatableResources": answer}):
        assert Kubelet(path).allocatable() == {"nvidia.com/gpu": 3}


def test_a_kubelet_too_old_to_count_counts_nothing(path: Path) -> None:
    """GetAllocatableResources came later than List: its absence is no fault."""
    with serving(path, {"List": b""}):
        assert Kubelet(path).allocatable() == {}


def test_no_socket_is_an_error(path: Path) -> None:
    """The message names the socket."""
    with pytest.raises(KubeletError, match=r"kubelet\.sock"):
        Kubelet(path).pods()


def test_a_kubelet_that_restarts_is_found_again(path: Path) -> None:
    """Each call has a connection of its own, so a socket that was removed and
    made again is no obstacle.
    """
    kubelet = Kubelet(path)
    with serving(path, {"List": GOLDEN}):
        assert len(kubelet.pods()) == 1
    path.unlink(missing_ok=True)
    with pytest.raises(KubeletError):
        kubelet.pods()
    with serving(path, {"List": b""}):
        assert kubelet.pods() == ()


@pytest.mark.slow
def test_a_slow_kubelet_costs_its_deadline_and_no_more(path: Path) -> None:
    """A handler that does not come back ends in DEADLINE_EXCEEDED, by the client's own clock."""
    release = Event()

    def never(_request: bytes, _context: grpc.ServicerContext) -> bytes:
        release.wait(PATIENCE_S)
        return b""

    with serving(path, {"List": never}):
        with pytest.raises(GrpcError) as caught:
            call(path, LIST, timeout_s=0.2)
        release.set()
    assert caught.value.code == 4


def test_the_server_s_own_reason_is_kept(path: Path) -> None:
    """Status and message of the server arrive, percent-decoded and printable."""

    def busy(_request: bytes, context: grpc.ServicerContext) -> bytes:
        context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "too many calls: 100%\n\u00fc")
        return b""

    with (
        serving(path, {"List": busy}),
        pytest.raises(GrpcError, match="too many calls: 100%\\?\u00fc") as caught,
    ):
        call(path, LIST, timeout_s=PATIENCE_S)
    assert caught.value.code == 8


@pytest.mark.slow
def test_a_large_answer_passes_the_flow_control(path: Path) -> None:
    """Ten times HTTP/2's window of 64 KiB arrive whole."""
    large = listing(*(pod(f"pod-{n}", [f"GPU-{n}" * 20]) for n in range(5000)))
    assert len(large) > 10 * 65_535
    with serving(path, {"List": large}):
        assert call(path, LIST, timeout_s=PATIENCE_S) == large


def test_an_answer_beyond_the_bound_is_refused(path: Path) -> None:
    """Memory is bounded by construction: what is longer is given up on the way."""
    with (
        serving(path, {"List": bytes(100_000)}),
        pytest.raises(GrpcError, match="longer than 1000 bytes"),
    ):
        call(path, LIST, timeout_s=PATIENCE_S, max_bytes=1000)


def test_bytes_that_are_no_message_are_refused(path: Path) -> None:
    """An answer that is no protocol buffer is an error with a name, not a crash."""
    with (
        serving(path, {"List": b"\xff\xff\xff"}),
        pytest.raises(KubeletError, match="an answer that is none"),
    ):
        Kubelet(path).pods()


@pytest.fixture(
    params=[b"HTTP/1.1 400 Bad Request\r\n\r\n", b"\0" * 64, b""], ids=["http1", "zeros", "closes"]
)
def stranger(request: pytest.FixtureRequest, path: Path) -> Iterator[Path]:
    """A socket behind which something else answers."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()

        def answer() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(65536)
                connection.sendall(request.param)

        thread = Thread(target=answer, daemon=True)
        thread.start()
        yield path
        thread.join(PATIENCE_S)


def test_who_speaks_no_grpc_is_an_error(stranger: Path) -> None:
    """HTTP/1, nonsense, or a connection that is closed at once."""
    with pytest.raises(GrpcError):
        call(stranger, LIST, timeout_s=PATIENCE_S)
