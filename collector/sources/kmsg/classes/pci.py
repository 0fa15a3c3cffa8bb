"""PCIe: advanced error reporting, containment, hot plug, power states."""

from __future__ import annotations

from collector.sources.kmsg.classes.model import PCI, Facts, LineClass, line

_SLOT = rf"pcieport {PCI}: pciehp: Slot\((?P<interface>[^)]{{1,32}})\): "
_PORT = rf"pcieport {PCI}: "


def _source(facts: Facts) -> Facts:
    """The device whose requester id the port names: 0xb800 is 0000:b8:00.0, 0 the port itself."""
    number = int(str(facts.pop("reporter", "0")), 16)
    port = str(facts["pci"])
    if not number:
        return facts
    device = f"{number >> 8:02x}:{number >> 3 & 0x1F:02x}.{number & 7}"
    return facts | {"pci": f"{port[:-7]}{device}", "reporter": port}


CLASSES: tuple[LineClass, ...] = (
    line(
        "pcie_error",
        "drivers/pci/pcie/aer.c",
        "",
        rf"[^ ]{{1,64}} {PCI}: (?:AER: )?PCIe Bus Error: severity=(?P<severity>[^,]{{1,40}}), "
        r"type=(?P<layer>[^,]{1,40}), (?:id=[0-9a-f]{1,8})?\(?(?P<role>[^)]{0,40})",
        needle="PCIe Bus Error: severity=",
    ),
    line(
        "pcie_containment",
        "drivers/pci/pcie/dpc.c",
        "pcieport",
        r"pcieport (?P<reporter>[^ ]{1,16}): (?:DPC|AER: DPC|EDR): containment event, "
        rf".{{0,80}}? received from {PCI}",
        severity="fatal",
    ),
    line(
        "pcie_containment",
        "drivers/pci/pcie/dpc.c",
        "pcieport",
        _PORT + r"(?:DPC|AER: DPC|EDR): containment event, status:0x[0-9a-f]{1,8}"
        r"(?::?,? source:0x(?P<reporter>[0-9a-f]{1,4}))?",
        complete=_source,
        severity="fatal",
    ),
    line(
        "pcie_containment",
        "drivers/pci/pcie/dpc.c",
        "pcieport",
        _PORT + r"DPC: (?P<reason>unmasked uncorrectable error|RP PIO error|ERR_FATAL received|"
        r"ERR_NONFATAL received|software trigger)",
        severity="fatal",
    ),
    line(
        "pcie_recovery_failed",
        "drivers/pci/pcie/err.c",
        "pcieport",
        _PORT + r"(?:AER: |DPC: |EDR: )?(?:device recovery failed|subordinate device reset failed)",
        severity="fatal",
    ),
    line(
        "pcie_recovered",
        "drivers/pci/pcie/err.c",
        "pcieport",
        _PORT + r"(?:AER: |DPC: |EDR: )?device recovery successful",
    ),
    line(
        "link_down",
        "drivers/pci/hotplug/pciehp_ctrl.c",
        "pcieport",
        _SLOT + r"(?:Link Down|Card not present)",
        driver="pciehp",
    ),
    line(
        "link_up",
        "drivers/pci/hotplug/pciehp_ctrl.c",
        "pcieport",
        _SLOT + r"Link Up",
        driver="pciehp",
    ),
    line(
        "device_inaccessible",
        "drivers/pci/pci.c",
        "",
        rf"(?P<driver>[^ ]{{1,64}}) {PCI}: (?:can't|Unable to) change power state from "
        r"(?P<reason>D3cold|unknown) to D0",
        needle="change power state from",
        severity="fatal",
    ),
    line(
        "device_inaccessible",
        "drivers/pci/pci.c",
        "",
        rf"(?P<driver>[^ ]{{1,64}}) {PCI}: Refused to change power state(?: from D0 to|, currently "
        r"in) (?P<reason>D3cold|D3hot|D3)",
        needle="Refused to change power state",
        severity="fatal",
    ),
)
