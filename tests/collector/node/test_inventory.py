"""The devices a node should have, over restarts and swaps."""

from __future__ import annotations

from pathlib import Path

import orjson
import pytest

from collector.node.inventory import Inventory, pci_key
from collector.node.state import State
from pipeline.frame import Device


def gpu(uuid: str, pci: str = "", index: str = "0") -> Device:
    """A GPU at an address."""
    return Device("n1", "gpu", uuid, {"index": index} | ({"pci_bus_id": pci} if pci else {}))


def ids(inventory: Inventory, kind: str = "gpu") -> list[str]:
    """Identities in order."""
    return [device.id for device in inventory.devices(kind)]


@pytest.fixture
def inventory() -> Inventory:
    """An inventory in memory."""
    return Inventory("n1", State(None))


def test_what_was_learned_outlives_a_restart(tmp_path: Path) -> None:
    """A new process knows the devices and attributes of the one before."""
    Inventory("n1", State(tmp_path)).learn(
        "gpu", [gpu("GPU-1", "00000000:1B:00.0"), gpu("GPU-2", "00000000:43:00.0")]
    )
    again = Inventory("n1", State(tmp_path))
    assert ids(again) == ["GPU-1", "GPU-2"]
    assert again.devices("gpu")[0].attributes["pci_bus_id"] == "00000000:1B:00.0"


def test_only_news_is_written(tmp_path: Path) -> None:
    """Learning what is known costs no write."""
    inventory = Inventory("n1", State(tmp_path))
    inventory.learn("gpu", [gpu("GPU-1")])
    (tmp_path / "inventory.json").unlink()
    inventory.learn("gpu", [gpu("GPU-1")])
    assert not (tmp_path / "inventory.json").exists()
    inventory.learn("gpu", [gpu("GPU-1", index="3")])
    assert (tmp_path / "inventory.json").exists()


def test_a_swapped_gpu_is_no_longer_expected(inventory: Inventory) -> None:
    """A new GPU in a slot takes the place of the old one, however the address is spelt."""
    inventory.learn("gpu", [gpu("GPU-old", "00000000:1B:00.0"), gpu("GPU-2", "00000000:43:00.0")])
    inventory.learn("gpu", [gpu("GPU-new", "0000:1b:00.0")])
    assert ids(inventory) == ["GPU-2", "GPU-new"]


def test_a_swap_is_noticed_when_the_address_comes_late(inventory: Inventory) -> None:
    """A GPU that is first known by its UUID alone takes its slot once its address is known."""
    inventory.learn("gpu", [gpu("GPU-old", "0000:1b:00")])
    inventory.learn("gpu", [gpu("GPU-new")])
    assert ids(inventory) == ["GPU-old", "GPU-new"]
    inventory.learn("gpu", [gpu("GPU-new", "0000:1b:00")])
    assert ids(inventory) == ["GPU-new"]


def test_gpus_without_an_address_do_not_displace_each_other(inventory: Inventory) -> None:
    """No address is no slot."""
    inventory.learn("gpu", [gpu("GPU-1"), gpu("GPU-2")])
    assert ids(inventory) == ["GPU-1", "GPU-2"]


def test_a_gpu_is_found_by_its_address(inventory: Inventory) -> None:
    """The kernel log names an address; the GPU there is known although it no longer answers."""
    inventory.learn("gpu", [gpu("GPU-1", "00000000:1B:00.0")])
    found = inventory.gpu_at("0000:1b:00")
    assert found is not None
    assert found.id == "GPU-1"
    assert inventory.gpu_at("0000:1c:00") is None
    assert inventory.gpu_at("") is None


def test_a_device_may_be_forgotten(inventory: Inventory) -> None:
    """A part that was taken out for good is no longer expected."""
    inventory.learn("gpu", [gpu("GPU-1"), gpu("GPU-2")])
    inventory.forget("gpu", ["GPU-1", "GPU-9"])
    assert ids(inventory) == ["GPU-2"]


def test_a_port_is_found_by_any_of_its_names(inventory: Inventory) -> None:
    """A port is known by RDMA device, net device and PCI address."""
    port = Device(
        "n1",
        "ib_port",
        "0xb8cef6030042ba81",
        {"device": "mlx5_0", "net_device": "ibp24s0", "pci_bus_id": "0000:18:00.0"},
    )
    inventory.learn("ib_port", [port])
    assert inventory.port_of(device="mlx5_0") == port
    assert inventory.port_of(device="ibp24s0") == port
    assert inventory.port_of(pci="00000000:18:00.0") == port
    assert inventory.port_of(device="mlx5_1") is None
    assert inventory.port_of() is None


@pytest.mark.parametrize(
    "document",
    [
        {"gpu": []},
        {"gpu": {"GPU-1": None}},
        {"gpu": {"GPU-1": {"index": 3, "serial": None}}},
        {"cat": {"x": {}}},
        {},
    ],
)
def test_a_foreign_state_file_does_no_harm(tmp_path: Path, document: dict[str, object]) -> None:
    """Whatever stands in the file, the agent starts; attributes are text."""
    (tmp_path / "inventory.json").write_bytes(orjson.dumps(document))
    inventory = Inventory("n1", State(tmp_path))
    for device in inventory.devices("gpu"):
        assert all(isinstance(text, str) for text in device.attributes.values())


@pytest.mark.parametrize("text", ["", ":", "zz:00:00.0", "00000000:1B", "1B:00.0 evil", "\n"])
def test_text_that_is_no_address_is_compared_as_it_is(text: str) -> None:
    """Nonsense is never an error, and never an address."""
    assert pci_key(text) == text
