"""Which labels name the node, the GPU and the job, on sites of every kind."""

from __future__ import annotations

from pathlib import Path

import pytest

from history.meaning.labels import LabelMap, proposed, read, text
from history.site.series import SiteError
from tests.history.site import gpu_labels


def test_the_host_name_that_the_exporter_gives_names_the_node() -> None:
    """Both spellings of its generations."""
    old, new = gpu_labels("n1", 0), gpu_labels("n1", 0)
    new["hostname"] = new.pop("Hostname")
    assert proposed([old], []).host(old) == proposed([new], []).host(new) == "n1"


def test_a_host_name_that_is_the_exporters_own_pod_names_no_node() -> None:
    """The operator's pod does not use the host's network: its host name is the pod's."""
    labels = gpu_labels("n1", 0, Hostname="nvidia-dcgm-exporter-x7k", node="n1")
    assert proposed([labels], []).host(labels) == "n1"


@pytest.mark.parametrize("own", ["localhost", "nvidia-dcgm", "3f9c1a2b7d40"])
def test_a_host_name_that_is_no_machines_is_none(own: str) -> None:
    """Of an exporter with ``-r``, where it asks DCGM, equal on all nodes; in Docker, its
    container's.
    """
    gpus = [gpu_labels(f"n{i}", gpu, Hostname=own) for i in (1, 2) for gpu in range(2)]
    labels = proposed(gpus, [])
    assert [labels.host(one) for one in gpus] == ["n1", "n1", "n2", "n2"]


def test_a_node_by_itself_keeps_its_host_name_whatever_it_is_like() -> None:
    """Two exporters list its GPUs; and the kernel of another says that it has such a name."""
    twice = [gpu_labels("n1", gpu, instance=f"10.0.0.{i}:9400") for i in (1, 2) for gpu in range(2)]
    assert {proposed(twice, []).host(one) for one in twice} == {"n1"}
    known = {"instance": "10.0.0.1:9100", "nodename": "0cc47a1b2c3d"}
    mac = gpu_labels("0cc47a1b2c3d", 0, instance="10.0.0.1:9400")
    assert proposed([mac], [known]).host(mac) == "0cc47a1b2c3d"


def test_without_a_better_label_the_instance_names_the_node() -> None:
    """The host of its address, without the port."""
    assert LabelMap().host({"instance": "gpu-17.example:9400"}) == "gpu-17.example"


def test_node_exporters_instances_are_the_hosts_that_their_kernel_names() -> None:
    """node_uname_info has both; short and long names are one host."""
    gpus = [gpu_labels("n1", 0), gpu_labels("n2", 0)]
    names = [
        {"instance": "10.0.0.1:9100", "nodename": "n1.cluster.example"},
        {"instance": "10.0.0.2:9100", "nodename": "n2"},
        {"instance": "10.0.0.9:9100", "nodename": "login"},
    ]
    labels = proposed(gpus, names)
    assert labels.host({"instance": "10.0.0.1:9100"}) == "n1"
    assert labels.host({"instance": "10.0.0.2:9100"}) == "n2"
    assert labels.host({"instance": "10.0.0.9:9100"}) == "10.0.0.9"


def test_the_instance_of_a_federated_series_is_the_one_that_it_had() -> None:
    """Without honor_labels the Prometheus that was asked is the instance of all."""
    asked = {"instance": "prom-a:9090", "job": "federate"}
    one = {**asked, "exported_instance": "10.0.0.1:9100"}
    labels = proposed([gpu_labels("n1", 0)], [{**one, "nodename": "n1"}])
    assert labels.host(one) == "n1"
    assert labels.host({**asked, "exported_instance": "10.0.0.9:9100"}) == "10.0.0.9"


def test_two_hosts_with_one_short_name_are_not_joined() -> None:
    """n1 of two clusters."""
    gpus = [gpu_labels("n1.a", 0), gpu_labels("n1.b", 0)]
    labels = proposed(gpus, [{"instance": "10.0.0.1:9100", "nodename": "n1"}])
    assert labels.host({"instance": "10.0.0.1:9100"}) == "10.0.0.1"


def test_the_workloads_pod_is_the_job_and_the_exporters_own_is_not() -> None:
    """Renamed to exported_pod by Prometheus, or kept by honorLabels."""
    renamed = gpu_labels("n1", 0, exported_pod="train-0", exported_namespace="ml")
    idle = gpu_labels("n1", 1)
    labels = proposed([renamed, idle], [])
    assert labels.job_of(renamed) == "ml/train-0"
    assert labels.job_of(idle) == ""
    assert proposed([idle], []).job_of(idle) == ""
    honoured = {"Hostname": "n1", "UUID": "GPU-1", "pod": "train-0", "namespace": "ml"}
    assert proposed([honoured], []).job_of(honoured) == "ml/train-0"


def test_a_slurm_job_is_its_number() -> None:
    """From the job mapping of dcgm-exporter."""
    assert LabelMap().job_of(gpu_labels("n1", 0, hpc_job="4711")) == "4711"


def test_a_uuid_is_written_as_nvml_writes_it() -> None:
    """nvidia_gpu_exporter leaves the prefix out."""
    assert LabelMap().gpu_of({"uuid": "5fd4"}) == "GPU-5fd4"
    assert LabelMap().gpu_of({"UUID": "GPU-5fd4"}) == "GPU-5fd4"
    assert LabelMap().gpu_of({"gpu": "0"}) == ""


def test_a_mapping_that_is_printed_can_be_read(tmp_path: Path) -> None:
    """Also with names of nodes."""
    mapping = LabelMap(node=("rack_node",), nodes={"10.0.0.1": "n1"})
    (tmp_path / "m.yaml").write_text(text(mapping))
    assert read(tmp_path / "m.yaml") == mapping


@pytest.mark.parametrize(
    ("content", "named"),
    [
        ("nodes: [a]", "nodes"),
        ("node: Hostname", "node"),
        ("node: [1]", "node"),
        ("host: [a]", "host"),
        ("- a", "keys"),
        ("a: [", "m.yaml"),
        ("nodes: {a: 1}", "nodes"),
    ],
)
def test_a_wrong_mapping_is_refused_with_its_key(content: str, named: str, tmp_path: Path) -> None:
    """The file is named too."""
    (tmp_path / "m.yaml").write_text(content)
    with pytest.raises(SiteError, match=named) as error:
        read(tmp_path / "m.yaml")
    assert "m.yaml" in str(error.value)
