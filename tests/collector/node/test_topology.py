"""Topology: where devices stand, from files, a command or node labels; strict in what it takes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.node.topology import (
    Topology,
    TopologyError,
    _entry,
    _yaml,
    parse_csv,
    parse_labels,
    read_file,
    run_command,
)
from pipeline.frame import Device

PORT = Device(
    "n1", "ib_port", "0xec0d9a0300bfc1e2", {"device": "mlx5_3", "port": "1", "net_device": "ib3"}
)
GPU = Device("n1", "gpu", "GPU-8f5c", {"index": "3"})
LINK = Device("n1", "nvlink", "GPU-8f5c/4", {"index": "3", "gpu_uuid": "GPU-8f5c", "link": "4"})
NODE = Device("n1", "node", "n1")

DOCUMENT = {
    "*": {"cluster": "alpha"},
    "n1": {
        "rack": "r12",
        "nvlink_domain": 7,
        "devices": {
            "mlx5_3": {"rail": "3", "leaf": "leaf-a"},
            "gpu3": {"rail": "3"},
            "0xec0d9a0300bfc1e2": {"leaf": "leaf-b"},
        },
    },
    "n2": {"rack": "r99"},
}
YAML = """\
"*": {cluster: alpha}
n1:
  rack: r12
  nvlink_domain: 7
  devices:
    mlx5_3: {rail: 3, leaf: leaf-a}
    gpu3: {rail: 3}
    "0xec0d9a0300bfc1e2": {leaf: leaf-b}
n2: {rack: r99}
"""
CSV = """\
# from the data centre's inventory
host,device,cluster,rack,nvlink_domain,rail,leaf
*,,alpha,,,,
n1,,,r12,7,,
n1,mlx5_3,,,,3,leaf-a
n1,gpu3,,,,3,
n1,0xec0d9a0300bfc1e2,,,,,leaf-b
n2,,,r99,,,
"""
TEXTS = {"t.json": json.dumps(DOCUMENT), "t.yaml": YAML, "t.csv": CSV}


@pytest.fixture(params=TEXTS)
def file(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """The same inventory in each form."""
    path = tmp_path / str(request.param)
    path.write_text(TEXTS[str(request.param)])
    return path


def test_every_form_says_the_same(file: Path) -> None:
    """Host and device attributes come together; the most exact name of a device holds."""
    topology = Topology.of_file(file, "n1")
    host = {"cluster": "alpha", "rack": "r12", "nvlink_domain": "7"}
    assert topology.attributes("node", NODE) == host
    assert topology.attributes("ib_port", PORT) == {**host, "rail": "3", "leaf": "leaf-b"}
    assert (
        topology.attributes("gpu", GPU)
        == topology.attributes("nvlink", LINK)
        == {**host, "rail": "3"}
    )


def test_a_host_that_is_not_in_the_file(file: Path) -> None:
    """What is said of every host holds for one that has no entry."""
    assert Topology.of_file(file, "n7").attributes("node", NODE) == {"cluster": "alpha"}


def test_attributes_are_merged_into_the_device(file: Path) -> None:
    """The device stays the same device, with its own facts and where it stands."""
    device = Topology.of_file(file, "n1").with_topology(GPU)
    assert device == GPU
    assert dict(device.attributes) == {
        "index": "3",
        "cluster": "alpha",
        "rack": "r12",
        "nvlink_domain": "7",
        "rail": "3",
    }


def test_a_changed_file_is_read_again(file: Path) -> None:
    """A new rack is taken over by the next read; nothing is read while nothing changed."""
    topology = Topology.of_file(file, "n1")
    before = topology.entry
    topology.read()
    assert topology.entry is before
    file.write_text(file.read_text().replace("r12", "r13-new"))
    topology.read()
    assert topology.attributes("node", NODE)["rack"] == "r13-new"


def test_a_file_that_breaks_leaves_the_old_in_force(file: Path) -> None:
    """An error after start is raised for the guard to count, again and again,
    and what was known stays.
    """
    topology = Topology.of_file(file, "n1")
    file.write_text("host,\n{[")
    for _ in range(2):
        with pytest.raises(TopologyError):
            topology.read()
    file.unlink()
    with pytest.raises(FileNotFoundError):
        topology.read()
    assert topology.attributes("node", NODE)["rack"] == "r12"


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("t.txt", "", r"t\.txt: name must end in"),
        ("t.yaml", "n1: {rack: r1\nn2: x", r"t\.yaml:2"),
        (
            "t.yaml",
            "n1:\n  rack: a\n  rack: b\n",
            r"t\.yaml:3: expected a new name",
        ),
        ("t.yaml", "n1: r12\n", r"t\.yaml:1: wanted keys and values"),
        ("t.yaml", "- n1\n", r"t\.yaml:1: wanted keys and values"),
        ("t.yaml", "n1: &a\n  devices: {x: *a}\n", r"alias"),
        ("t.yaml", "n1: {Rack: r1}", r"t\.yaml: n1\.Rack: a key is"),
        ("t.yaml", "n1: {rack: }", r"t\.yaml: n1\.rack: wanted 1 to 128"),
        (
            "t.yaml",
            "n1: {devices: {gpu0: {uuid: x}}}",
            r"t\.yaml: n1\.devices\.gpu0\.uuid: this name is reserved for",
        ),
        ("t.yaml", "n1: {port: '1'}", r"n1\.port: this name is reserved for"),
        ("t.yaml", "n1: {devices: {gpu0: {devices: {a: {b: c}}}}}", r"not as deep"),
        ("t.yaml", 'n1: {rack: "a\\nb"}', r"n1\.rack: wanted 1 to 128 printable"),
        ("t.json", "{", r"t\.json:1"),
        ("t.json", '{"n1": {"rack": true}}', r"n1\.rack: wanted text"),
        ("t.json", '{"n1": {"rack": 1.5}}', r"n1\.rack: wanted text"),
        ("t.json", '{"n1": {"rack": "a", "rack": "b"}}', r"rack occurs twice"),
        ("t.json", "[1]", r"t\.json: wanted an object"),
        ("t.json", "[" * 100_000, r"t\.json: nested too deeply"),
        (
            "t.json",
            json.dumps({"n1": {f"k{i}": "v" for i in range(17)}}),
            r"n1: wanted at most 16 keys",
        ),
        ("t.csv", "rack\nr1\n", r"t\.csv:1: the first line names the columns"),
        ("t.csv", "host,rack\nn1\n", r"t\.csv:2: 1 cells, wanted 2"),
        ("t.csv", "host,rack\nn1,a\nn1,b\n", r"t\.csv:3: a second row for n1"),
        ("t.csv", "host,rack\n,a\n", r"t\.csv:2: no host"),
        ("t.csv", "host,serial\nn1,a\n", r"t\.csv:1\.serial: this name is reserved for"),
        ("t.csv", 'host,rack\nn1,"a\n', r"t\.csv:2"),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, name: str, text: str, message: str) -> None:
    """Every error names the file and the line or key, whichever host it stands under."""
    path = tmp_path / name
    path.write_text(text)
    with pytest.raises(TopologyError, match=message):
        Topology.of_file(path, "elsewhere")


def test_a_file_that_is_not_text(tmp_path: Path) -> None:
    """Bytes that are no UTF-8 are named by their place."""
    path = tmp_path / "t.yaml"
    path.write_bytes(b"n1: {rack: \xff}")
    with pytest.raises(TopologyError, match="byte 11 is not UTF-8"):
        read_file(path, "n1")


@pytest.mark.parametrize(
    ("name", "text"),
    [("t.csv", "host,rack\r\nn1,r12\r\n,\r\n"), ("t.json", '{"n1": {"rack": "r12"}}')],
)
def test_a_file_of_a_spreadsheet_is_read(tmp_path: Path, name: str, text: str) -> None:
    """With a byte order mark in front, and rows of empty cells at the end."""
    path = tmp_path / name
    path.write_bytes(b"\xef\xbb\xbf" + text.encode())
    assert read_file(path, "n1").attributes == {"rack": "r12"}


def test_names_in_yaml_are_text() -> None:
    """A rack called 012 or a leaf called yes is what it looks like."""
    entry = parse_yaml("n1: {rack: 012, leaf: yes, rail: 1_0}")
    assert entry == {"rack": "012", "leaf": "yes", "rail": "1_0"}


def parse_yaml(text: str) -> dict[str, str]:
    """The attributes of all hosts together."""
    found: dict[str, str] = {}
    for body in _yaml(text, "t").values():
        found |= _entry(body, "t").attributes
    return found


def test_labels_of_the_node(tmp_path: Path) -> None:
    """Chosen labels of a downward API file become attributes; one the node
    does not bear is left out.
    """
    path = tmp_path / "labels"
    path.write_text(
        'topology.kubernetes.io/zone="eu-1a"\nexample.com/rack="r12"\napp="tocsin \\"x\\""\n'
    )
    labels = {
        "rack": "example.com/rack",
        "zone": "topology.kubernetes.io/zone",
        "leaf": "example.com/leaf",
    }
    assert Topology.of_labels(path, labels).attributes("node", NODE) == {
        "rack": "r12",
        "zone": "eu-1a",
    }


@pytest.mark.parametrize("line", ["rack", "rack=r12", 'rack="r12', 'rack="\\q"', '"rack"="r12"'])
def test_a_line_that_is_no_label(line: str) -> None:
    """Anything but label="value" is an error with its line."""
    with pytest.raises(TopologyError, match="labels:2: "):
        parse_labels(f'app="x"\n{line}\n', {"rack": "rack"}, "labels")


def test_labels_that_are_swapped_whole(tmp_path: Path) -> None:
    """Kubernetes replaces the file through a symbolic link: the new one is seen."""
    for name, rack in (("1", "r1"), ("2", "r2")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "labels").write_text(f'rack="{rack}"\n')
    link = tmp_path / "data"
    link.symlink_to("1")
    topology = Topology.of_labels(link / "labels", {"rack": "rack"})
    (tmp_path / "new").symlink_to("2")
    (tmp_path / "new").replace(link)
    topology.read()
    assert topology.attributes("node", NODE) == {"rack": "r2"}


@pytest.mark.slow
def test_a_command_prints_this_hosts_entry() -> None:
    """The command's object is the entry of the host it runs on."""
    topology = Topology.of_command(["printf", "%s", json.dumps(DOCUMENT["n1"])])
    assert topology.attributes("node", NODE) == {}
    topology.read()
    assert topology.attributes("ib_port", PORT)["leaf"] == "leaf-b"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["/nonexistent/inventory"], "inventory: No such file"),
        (["sh", "-c", "echo no database >&2; exit 3"], "exit 3.*no database"),
        (["echo", "not json"], "Expecting value"),
        (["echo", "[]"], "wanted an object"),
        (["echo", '{"rack": {"a": "b"}}'], "rack: wanted text"),
    ],
)
def test_a_command_that_fails_is_named(argv: list[str], message: str) -> None:
    """What went wrong stands beside the command, and no entry comes of it."""
    with pytest.raises(TopologyError, match=message):
        run_command(argv)


@pytest.mark.slow
def test_a_command_that_hangs_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """Past its deadline the command is killed and its reader goes on."""
    monkeypatch.setattr("collector.node.topology.COMMAND_S", 0.1)
    with pytest.raises(TopologyError, match=r"no end within 0\.1 s"):
        run_command(["sleep", "60"])


@pytest.mark.slow
@given(st.text(max_size=200))
def test_no_text_breaks_a_parser(text: str) -> None:
    """Hostile text gives an entry or a TopologyError, nothing else."""
    for parse in (
        lambda: parse_csv(text, "n1", "t"),
        lambda: parse_labels(text, {"rack": "rack"}, "t"),
        lambda: parse_yaml(f"n1:\n  {text}"),
    ):
        try:
            parse()
        except TopologyError as error:
            assert str(error).startswith("t")


@pytest.mark.slow
def test_only_this_hosts_devices_are_kept(tmp_path: Path) -> None:
    """Of a table of 20,000 rows ten stay in memory."""
    path = tmp_path / "t.csv"
    rows = (f"n{i // 10},mlx5_{i % 10},r{i // 400}" for i in range(20_000))
    path.write_text("host,device,rack\n" + "\n".join(rows) + "\n")
    assert len(read_file(path, "n5").devices) == 10
