"""Disks: NVMe controllers, software RAID, SCSI and ATA, block layer."""

from __future__ import annotations

from collector.sources.kmsg.classes.model import BLOCK_DEVICE, NAME, LineClass, line

_NVME_SOURCE = "drivers/nvme/host"
_NVME = r"nvme (?P<block_device>nvme\d{1,5}(?:c\d{1,3})?(?:n\d{1,3})?): "


def _error(
    expression: str, begins: str, source: str, component: str, *, needle: str = "", **more: str
) -> LineClass:
    row = line("storage_error", source, begins, expression, needle=needle, component=component)
    return row._replace(constants=(*row.constants, *more.items()))


def _nvme(expression: str, reason: str, severity: str) -> LineClass:
    source = f"{_NVME_SOURCE}/pci.c, core.c, tcp.c, rdma.c"
    return _error(_NVME + expression, "nvme", source, "nvme", reason=reason, severity=severity)


def _recovered(expression: str, begins: str, component: str, needle: str = "") -> LineClass:
    return line(
        "storage_recovered",
        _NVME_SOURCE if component == "nvme" else "drivers/md/md.c",
        begins,
        expression,
        needle=needle,
        component=component,
    )


CLASSES: tuple[LineClass, ...] = (
    _nvme(r"I/O (?:tag )?\d{1,6}.{0,80}?QID \d{1,5} timeout", "timeout", "nonfatal"),
    _nvme(r"controller is down; will reset", "controller down", "nonfatal"),
    _nvme(
        r"(?:Disabling device after reset failure|Removing after probe failure|"
        r"Device shutdown incomplete; abort shutdown)",
        "disabled",
        "fatal",
    ),
    _nvme(r"Device not ready; aborting", "reset failed", "fatal"),
    _nvme(r"(?:failed to reset|reset failed|Could not set queue count)", "reset failed", "fatal"),
    _nvme(r"resetting controller due to", "reset", "nonfatal"),
    _nvme(r"(?:starting error recovery|failed nvme_keep_alive|Removing ctrl)", "lost", "nonfatal"),
    _recovered(_NVME + r"Successfully reconnected", "nvme", "nvme"),
    # Printed at each start as well: an event only after an error of the same controller.
    _recovered(_NVME + r"\d{1,5}/\d{1,5}/\d{1,5} default/read/poll queues", "nvme", "nvme"),
    _error(
        rf"md/[^:]{{1,16}}:(?P<array>[^:]{{1,32}}): Disk failure on {BLOCK_DEVICE}",
        "",
        "drivers/md/raid1.c, raid5.c, raid10.c",
        "md",
        needle="Disk failure on",
        reason="disk failure",
        severity="nonfatal",
    ),
    _error(
        r"md/[^:]{1,16}:(?P<array>[^:]{1,32}): (?:Cannot continue operation|not enough "
        r"operational|too many .{0,40}failed)",
        "",
        "drivers/md/raid5.c, raid10.c",
        "md",
        needle="md/raid",
        reason="array failed",
        severity="fatal",
    ),
    _recovered(r"md: (?P<array>[^:]{1,32}): recovery done", "md:", "md"),
    _error(
        r"(?:blk_update_request: |print_req_error: )?(?:critical (?P<reason>medium|target|space "
        rf"allocation|nexus) error|(?:protection|critical )?I/O error), dev {BLOCK_DEVICE},",
        "blk_update_request: print_req_error: critical I/O protection",
        "block/blk-mq.c",
        "block",
        reason="I/O error",
    ),
    _error(
        rf"Buffer I/O error on (?:dev(?:ice)? )?{BLOCK_DEVICE},",
        "Buffer",
        "fs/buffer.c",
        "block",
        reason="buffer I/O error",
    ),
    _error(
        rf"(?:{NAME}: )?attempt to access beyond end of device\n "
        rf"{{0,32}}{BLOCK_DEVICE}: rw=",
        "",
        "block/blk-core.c",
        "block",
        needle="beyond end of device",
        reason="beyond end of device",
    ),
    _error(
        rf"sd [\d:]{{3,24}}: (?:\[{BLOCK_DEVICE}\] )?(?:tag#\d{{1,6}} )?(?P<reason>rejecting I/O "
        r"to offline device|Medium Error|device offlined|Device offlined)",
        "sd",
        "drivers/scsi",
        "scsi",
    ),
    _error(
        r"(?P<block_device>ata\d{1,4}(?:\.\d{1,2})?): (?P<reason>exception Emask|"
        r"disabled(?=\s{0,4}$)|hard resetting link failed|SError: \{)",
        "",
        "drivers/ata/libata-eh.c",
        "ata",
        needle="ata",
    ),
)
