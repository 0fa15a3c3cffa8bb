"""Troubles of storage: servers of network file systems that are gone, disks and file systems that
fail.

Wording: the printk calls of Linux 4.18 to 6.15 and Lustre 2.15; weka and beegfs: from their form.
"""

from __future__ import annotations

from simulator.fleet.troubles.trouble import Trouble, lines

WAIT_S = 60.0  # a server that is back by then was not gone
NFS, LUSTRE = (
    ("nfs: server {server} OK",),
    ("Lustre: {target}-osc-ffff8881: Connection restored to 10.0.0.1@o2ib (at 10.0.0.1@o2ib)",),
)
TASKS = ("INFO: task {comm}:{pid} blocked for more than 120 seconds.",) * 4


def _server(*spellings: str, ends: tuple[str, ...] = ()) -> Trouble:
    return Trouble(
        lines(*spellings), "page", "ticket", wait_s=WAIT_S, ends=ends, quiet=not ends,
        halts="waits", chain=TASKS,
    )  # fmt: skip


SERVERS = (
    _server(
        "nfs: server {server} not responding, still trying",
        "nfs: server {server} not responding, timed out",
        "nfs: server {server} timed out",
        "NFS: server {server} not responding, still trying",
        "lockd: server {server} not responding, still trying",
        "NFS: state manager: check lease failed on NFSv4 server {server} with error 13",
        ends=NFS,
    ),
    _server(
        "Lustre: {target}-osc-ffff8881: Connection to {target} (at 10.0.0.1@o2ib) was lost; in "
        "progress operations using this service will wait for recovery to complete",
        ends=LUSTRE,
    ),
    _server(
        "LustreError: 167-0: {target}-mdc-ffff8881: This client was evicted by {target}",
        "LustreError: {pid}:0:(import.c:1234:ptlrpc_connect_interpret()) bad connection",
        "LNetError: 12:0:(o2iblnd_cb.c:3442:kiblnd_check_txs_locked()) Timed out tx: active_txs",
        "Lustre: {pid}:0:(client.c:2289:ptlrpc_expire_one_request()) @@@ Request sent has timed "
        "out for slow reply: [sent 1737434504/real 1737434504] req@ffff8881",
        ends=LUSTRE,
    ),
    _server(
        "ceph: mds{mds} hung",
        "ceph: [01234567-89ab-cdef-0123-456789abcdef 4242]: mds{mds} hung",
        "ceph: mds{mds} caps stale",
        ends=("ceph: mds{mds} came back",),
    ),
    _server(
        "libceph: mon{mds} (1)10.0.0.1:6789 session lost, hunting for new mon",
        "libceph: mon{mds} (1)10.0.0.1:6789 connect error",
        ends=("libceph: mon{mds} (1)10.0.0.1:6789 session established",),
    ),
    _server(
        "libceph: osd{mds} down",
        "libceph: (01234567-89ab-cdef-0123-456789abcdef e12) osd{mds} down",
        ends=("libceph: osd{mds} up",),
    ),
    _server("CIFS: VFS: \\\\{server}\\share has not responded in 180 seconds. Reconnecting..."),
    _server(
        "wekafs: mount /mnt/weka: connection to backend 10.0.0.7 lost",
        "[WEKA] filesystem /mnt/weka hung for {seconds} s",
        "weka: /mnt/weka: backend 10.0.0.7 unreachable",
        ends=("wekafs: mount /mnt/weka: connection to backend 10.0.0.7 restored",),
    ),
    _server("beegfs: mount({pid}): NodeConn: Connect failed: beegfs-storage 10.0.0.8:8003"),
)
EXT4 = "EXT4-fs ({disk}): Remounting filesystem read-only"
READ_ONLY = lines(
    EXT4,
    "EXT3-fs ({disk}): Remounting filesystem read-only",
    "EXT4-fs (device {disk}): Remounting filesystem read-only",
    "XFS ({disk}): Filesystem has been shut down due to log error (0x2).",
    "XFS ({disk}): Corruption of in-memory data (0x8) detected at xfs_x. Shutting down filesystem.",
    "BTRFS info (device {disk} state E): forced readonly",
    "BTRFS: error (device {disk}) in btrfs_x:1: errno=-5 IO failure, forced readonly",
    "FAT-fs ({disk}): Filesystem has been set read-only",
    "F2FS-fs ({disk}): Remounting filesystem read-only",
    "WARNING: Pool 'tank' has encountered an uncorrectable I/O failure and has been suspended.",
    "ERROR: (device {disk}): remounting filesystem as read-only",
    "gfs2: fsid=cluster:data.0: about to withdraw this file system",
    "OCFS2: File system is now read-only.",
)
FILE_SYSTEM = lines(
    "EXT4-fs error (device {disk}): ext4_find_entry:1455: inode #2: comm {comm}: reading directory",
    "EXT4-fs ({disk}): I/O error while writing superblock",
    "EXT4-fs warning (device {disk}): ext4_end_bio:343: I/O error 10 writing to inode {n}",
    "Aborting journal on device {disk}-8.",
    "JBD2: Detected aborted journal for {disk}-8",
    "XFS ({disk}): Metadata corruption detected at xfs_agf_read_verify+0x9b/0xc0 [xfs]",
    "BTRFS error (device {disk}): bad tree block start, want 1 have 0",
)
NVME_RESET = "nvme {nvme}: controller is down; will reset: CSTS=0xffffffff, PCI_STATUS=0x10"
NVME_TIMEOUT = "nvme {nvme}: I/O {n} QID 1 timeout, reset controller"
NVME_ABORT = (
    "nvme {nvme}: I/O tag 12 (300c) opcode 0x2 (I/O Cmd) QID 1 timeout, aborting "
    "req_op:READ(0) size:4096"
)
DISK = (
    *lines(
        "nvme {nvme}: Disabling device after reset failure: -19",
        "nvme {nvme}: Removing after probe failure status: -19",
        "nvme {nvme}: Device not ready; aborting reset, CSTS=0x1",
        "nvme {nvme}: Could not set queue count (16390)",
        "md/raid:{array}: Cannot continue operation (2/4 failed).",
        "md/raid:{array}: not enough operational devices (2/4 failed)",
    ),
    (NVME_TIMEOUT, NVME_RESET, "nvme {nvme}: Disabling device after reset failure: -19"),
)
LATER = (
    "I/O error, dev {disk}, sector {n} op 0x1:(WRITE) flags 0x0 phys_seg 1 prio class 2",
    "Buffer I/O error on dev {disk}, logical block {n}, lost async page write",
    "EXT4-fs error (device {disk}): ext4_find_entry:1455: inode #2: comm {comm}: reading directory",
    "Aborting journal on device {disk}-8.",
    EXT4,
)
# Of one disk, again and again.
BAD_SECTORS = (
    Trouble(lines(text), "ticket", least=3, within_s=3600.0)
    for text in (
        "I/O error, dev {disk}, sector {n} op 0x0:(READ) flags 0x0 phys_seg 1 prio class 2",
        "critical medium error, dev {disk}, sector {n} op 0x0:(READ) flags 0x0",
        "blk_update_request: I/O error, dev {disk}, sector {n} op 0x0:(READ) flags 0x0",
        "Buffer I/O error on dev {disk}, logical block {n}, async page read",
        "{comm}: attempt to access beyond end of device\n{disk}: rw=0, sector={n}, limit=10",
        "sd 0:0:0:0: [sdb] tag#1 rejecting I/O to offline device",
        "ata1.00: exception Emask 0x0 SAct 0x0 SErr 0x0 action 0x6 frozen",
        NVME_TIMEOUT,
        NVME_ABORT,
        "nvme {nvme}: starting error recovery",
        "md/raid1:{array}: Disk failure on sda1, disabling device.",
    )
)
DISKS = (
    Trouble(READ_ONLY, "page", "ticket", halts="dies"),
    Trouble(FILE_SYSTEM, "ticket"),
    Trouble(DISK, "page", "ticket", halts="dies", chain=LATER),
    *BAD_SECTORS,
)
