"""The tree below /sys of a simulated node: InfiniBand ports, their adapters and net devices,
PCI devices of the GPUs.

Layout, names and spelling: Documentation/ABI/stable/sysfs-class-infiniband and
testing/sysfs-bus-pci of Linux.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path

from simulator.files import LiveFile, link, put
from simulator.node import Node
from simulator.profile import BIOS_VERSION
from simulator.readings import Reading, port_readings

# hw_counters of mlx5 (drivers/infiniband/hw/mlx5/counters.c) that stay at 0 on a
# healthy InfiniBand port.
QUIET = [
    "duplicate_request",
    "implied_nak_seq_err",
    "np_cnp_sent",
    "np_ecn_marked_roce_packets",
    "out_of_buffer",
    "out_of_sequence",
    "packet_seq_err",
    "req_cqe_error",
    "req_cqe_flush_error",
    "req_remote_access_errors",
    "req_remote_invalid_request",
    "req_rnr_retries_exceeded",
    "req_transport_retries_exceeded",
    "resp_cqe_error",
    "resp_cqe_flush_error",
    "resp_local_length_error",
    "resp_remote_access_errors",
    "rnr_nak_retry_err",
    "roce_adp_retrans",
    "roce_adp_retrans_to",
    "roce_slow_restart",
    "roce_slow_restart_cnps",
    "roce_slow_restart_trans",
    "rp_cnp_handled",
    "rp_cnp_ignored",
    "rx_atomic_requests",
    "rx_dct_connect",
    "rx_icrc_encapsulated",
]

FABRIC_MANAGER = "fs/cgroup/system.slice/nvidia-fabricmanager.service"


class SysfsRenderer:
    """The tree of one node below ``root`` (the DIR/sys of a simulated node)."""

    def __init__(self, root: Path, node: Node) -> None:
        self._root, self._node = root, node
        self._ports = [_Port(root, node, port) for port in range(node.port_count)]
        self._gpu_links: list[tuple[LiveFile, LiveFile]] = []
        self._gpus: list[Path] = []
        self._gpu_driver = ""
        self._manager = False
        (root / FABRIC_MANAGER).parent.mkdir(parents=True, exist_ok=True)
        host, model = node.profile.host, node.profile.gpu
        for gpu, pci in enumerate(model.pci):
            files = {
                "vendor": "0x10de",
                "device": f"0x{int(node.profile.answers['nvmlDeviceGetPciInfo_v3().pciDeviceId']) >> 16:04x}",  # noqa: E501 - no place to break
            }
            folder = _pci(
                root,
                f"{pci}.0",
                model.numa[gpu],
                {**files, "class": "0x030200"},
                _pcie_speed(model.pcie_generation),
            )
            self._gpu_links.append(_link_files(folder))
            self._gpus.append(folder)
        put(
            root,
            {
                "module/nvidia/version": host.driver,
                "module/mlx5_core/version": host.ofed,
                "class/dmi/id/product_name": host.product,
                "class/dmi/id/sys_vendor": "NVIDIA",
                "class/dmi/id/bios_version": BIOS_VERSION,
                "devices/system/clocksource/clocksource0/current_clocksource": "tsc",
                "devices/system/node/online": f"0-{max((*model.numa, *node.profile.ports.numa))}",
            },
        )

    def render(self) -> None:
        """Write what changed."""
        node, readings = self._node, port_readings(self._node)
        for port in self._ports:
            port.render(readings)
        for (speed, width), generation, lanes in zip(
            self._gpu_links, node.pcie_generation, node.pcie_width, strict=True
        ):
            speed.write(_pcie_speed(int(generation)))
            width.write(str(int(lanes)))
        if node.gpu_driver != self._gpu_driver:
            self._gpu_driver = node.gpu_driver
            driver = self._root / "bus" / "pci" / "drivers" / node.gpu_driver
            driver.mkdir(parents=True, exist_ok=True)
            for folder in self._gpus:
                link(folder / "driver", driver)

        self._services()

    def _services(self) -> None:
        """The control group of Fabric Manager's service. Of a rack it runs on the switch trays."""
        runs = self._node.fabric.manager_runs and not self._node.profile.nvlink.c2c_links
        if runs != self._manager:
            self._manager = runs
            if runs:
                put(self._root, {f"{FABRIC_MANAGER}/cgroup.procs": 2131})
            else:
                shutil.rmtree(self._root / FABRIC_MANAGER)

    def close(self) -> None:
        """Close all files; the tree stays."""
        for port in self._ports:
            port.close()
        for pair in self._gpu_links:
            for file in pair:
                file.close()


class _Port:
    """One adapter with its port, as long as it is there."""

    def __init__(self, root: Path, node: Node, port: int) -> None:
        self._root, self._node, self._port = root, node, port
        self._files: dict[str, LiveFile] = {}
        model = node.profile.ports
        self._device, self._net = model.devices[port], model.net[port]
        self._pci = root / "devices" / f"pci{model.pci[port][:7]}" / model.pci[port]
        self._guid = node.guids[port]
        self._appear(port_readings(node))

    def render(self, readings: Mapping[str, Reading]) -> None:
        present = bool(self._node.ports.present[self._port])
        if present and not self._files:
            self._appear(readings)
        if not present and self._files:
            self._vanish()
        if present:
            for name, text in self._live(readings).items():
                self._files[name].write(text)

    def close(self) -> None:
        for file in self._files.values():
            file.close()
        self._files = {}

    def _appear(self, readings: Mapping[str, Reading]) -> None:
        model = self._node.profile.ports
        files = {"vendor": "0x15b3", "device": model.device_id, "class": "0x020700"}
        _pci(self._root, model.pci[self._port], model.numa[self._port], files, model.pcie_speed)
        put(self._pci, {"current_link_speed": model.pcie_speed})
        folder = self._pci / "infiniband" / self._device
        put(folder, self._fixed())
        put(
            self._pci / "net" / self._net,
            {"mtu": 4092, "speed": model.gigabits_per_second * 1000, "type": 32, "dev_port": 0},
        )
        (folder / "ports" / "1" / "gid_attrs" / "ndevs").mkdir(
            parents=True, exist_ok=True
        )  # EINVAL on InfiniBand: no file here
        link(folder / "device", self._pci)
        link(self._pci / "net" / self._net / "device", self._pci)
        link(self._root / "class" / "net" / self._net, self._pci / "net" / self._net)
        self._files = {
            name: LiveFile(self._pci / name, text) for name, text in self._live(readings).items()
        }
        link(self._root / "class" / "infiniband" / self._device, folder)

    def _vanish(self) -> None:
        (self._root / "class" / "infiniband" / self._device).unlink()
        (self._root / "class" / "net" / self._net).unlink()
        self.close()
        shutil.rmtree(self._pci)

    def _fixed(self) -> dict[str, str | int]:
        model, port = self._node.profile.ports, self._guid + 1
        return {
            "node_guid": _guid(self._guid),
            "sys_image_guid": _guid(self._guid),
            "node_type": "1: CA",
            "node_desc": f"{self._node.profile.name} {self._device}",
            "fw_ver": model.firmware,
            "hca_type": model.hca_type,
            "hw_rev": "0",
            "board_id": model.board,
            "ports/1/link_layer": "InfiniBand",
            "ports/1/cap_mask": "0xa751e848",
            "ports/1/lid_mask_count": 0,
            "ports/1/sm_sl": 0,
            "ports/1/gids/0": f"fe80:0000:0000:0000:{_guid(port)}",
            "ports/1/gid_attrs/types/0": "IB/RoCE v1",
            "ports/1/pkeys/0": "0xffff",
            "ports/1/hw_counters/lifespan": 10,
            **{f"ports/1/hw_counters/{name}": 0 for name in QUIET},
        }

    def _live(self, readings: Mapping[str, Reading]) -> dict[str, str]:
        """Files below the adapter's PCI folder whose content changes."""
        ports, i, model = self._node.ports, self._port, self._node.profile.ports
        up = bool(ports.up[i])
        base, net = f"infiniband/{self._device}/ports/1/", f"net/{self._net}/"
        rate = (
            f"{model.gigabits_per_second} Gb/sec (4X {model.speed})" if up else "10 Gb/sec (4X SDR)"
        )
        live = {f"{base}{name}": str(int(values[i])) for name, values in readings.items()}
        return live | {
            "current_link_width": str(int(ports.pcie_width[i])),
            f"{base}state": "4: ACTIVE" if up else "1: DOWN",
            f"{base}phys_state": "5: LinkUp" if up else "2: Polling",
            f"{base}rate": rate,
            f"{base}lid": f"0x{i + 17:x}" if up else "0xffff",
            f"{base}sm_lid": "0x1" if up else "0x0",
            f"{net}carrier": str(int(up)),
            f"{net}operstate": "up" if up else "down",
            f"{net}carrier_changes": str(int(ports.carrier_changes[i])),
            **{
                f"{net}statistics/{way}_{kind}": "0"
                for way in ("rx", "tx")
                for kind in ("errors", "dropped", "crc_errors", "missed_errors")
                if way == "rx" or kind in ("errors", "dropped")
            },
        }


def _pci(root: Path, address: str, numa: int, files: dict[str, str], speed: str) -> Path:
    """A PCI device below ``root``/devices with its link in bus/pci/devices."""
    folder = root / "devices" / f"pci{address[:7]}" / address
    put(folder, {**files, "numa_node": numa, "max_link_speed": speed, "max_link_width": 16})
    link(root / "bus" / "pci" / "devices" / address, folder)
    return folder


def _link_files(folder: Path) -> tuple[LiveFile, LiveFile]:
    return LiveFile(folder / "current_link_speed", "?"), LiveFile(
        folder / "current_link_width", "0"
    )


def _pcie_speed(generation: int) -> str:
    """Speed of a generation as the kernel prints it (drivers/pci/probe.c)."""
    return {
        1: "2.5 GT/s PCIe",
        2: "5.0 GT/s PCIe",
        3: "8.0 GT/s PCIe",
        4: "16.0 GT/s PCIe",
        5: "32.0 GT/s PCIe",
    }.get(generation, "Unknown")


def _guid(number: int) -> str:
    """A GUID as sysfs spells it.

    >>> _guid(0xA088C20300123450)
    'a088:c203:0012:3450'
    """
    text = f"{number:016x}"
    return ":".join(text[i : i + 4] for i in range(0, 16, 4))
