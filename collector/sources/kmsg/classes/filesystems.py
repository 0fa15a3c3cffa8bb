"""File systems, local and of the network: errors, read-only remounts, servers gone and back."""

from __future__ import annotations

from collector.sources.kmsg.classes.model import BLOCK_DEVICE, REAL_DEVICE, LineClass, line

_EXT = rf"(?P<filesystem>EXT[234])-fs \((?:device )?{BLOCK_DEVICE}\): "
_SERVER = r"(?P<server>[^\s]{1,255})"
_CEPH = r"ceph: (?:\[[0-9a-f-]{36} \d{1,20}\]: )?(?:\[[^\]]{1,80}\]: )?"
_LIBCEPH = r"libceph: (?:\([0-9a-f -]{36,60}\) )?"


def _local(kind: str, begins: str, expression: str, source: str, **more: str) -> LineClass:
    return line(kind, source, begins, expression)._replace(constants=tuple(more.items()))


def _gone(
    begins: str, expression: str, filesystem: str, source: str, reason: str = "not responding"
) -> LineClass:
    return line(
        "network_filesystem_error",
        source,
        begins,
        expression,
        filesystem=filesystem,
        reason=reason,
    )


def _back(begins: str, expression: str, filesystem: str, source: str) -> LineClass:
    return line("network_filesystem_recovered", source, begins, expression, filesystem=filesystem)


_NFS, _CEPHFS, _MON = "net/sunrpc/clnt.c", "fs/ceph/mds_client.c", "net/ceph/mon_client.c"
_LUSTRE, _CIFS = "lustre/ptlrpc/import.c", "fs/smb/client/connect.c"
# What begins a message of Lustre: process, source file and line; a code; the name of a target.
_LUSTRE_PLACE = r"\d{1,10}:\d{1,10}:\([\w.-]{1,64}\.[ch]:\d{1,6}:"
_LUSTRE_CODE = r"[0-9a-f]{1,6}-[0-9a-f]{1,4}: "
_LUSTRE_NAMED = r"(?=[^ :]{0,120}?(?:MDT|OST|MGS|MGC|MGT))"
# An import is named after its target. What "restored to" names is the target in old releases only,
# now the address of the server.
_LUSTRE_IMPORT = r"(?P<server>[^ ]{1,160}?)(?:-(?:mdc|osc|mgc|lwp)-[0-9a-f]{4,16})?: "
_WEKA = "wekafs kernel client"
_WEKA_FIRST = "wekafs: wekafsio: wekafsgw: weka: WEKA: Weka: [WEKA] [weka]"
# Its servers are named by address, its mounts by path; a recovery that names neither ends nothing.
_WEKA_HEAD = (
    r"\[?(?i:wekafs(?:io|gw)?|weka)(?:\]:?|:)"
    r"(?:(?=.{0,160}?(?:\b(?:backend|server|node|host) | (?=/))(?P<server>[/\w][^\s:,;]{1,119}))|)"
    r"(?! .{1,10}\[\d{1,10}\]) .{0,160}?"
)

CLASSES: tuple[LineClass, ...] = (
    _local(
        "filesystem_read_only",
        "EXT4-fs EXT3-fs EXT2-fs",
        _EXT + r"Remounting filesystem read-only",
        "fs/ext4/super.c",
    ),
    # Printed at each start as well: an event only after the file system had become read-only.
    _local(
        "filesystem_recovered",
        "EXT4-fs EXT3-fs EXT2-fs",
        _EXT + r"re-mounted .{0,60}?\br/w\b",
        "fs/ext4/super.c",
    ),
    _local(
        "filesystem_error",
        "EXT4-fs EXT3-fs EXT2-fs",
        rf"(?P<filesystem>EXT[234])-fs (?:error|warning) \(device {BLOCK_DEVICE}\)",
        "fs/ext4/super.c",
    ),
    _local(
        "filesystem_error",
        "EXT4-fs EXT3-fs EXT2-fs",
        _EXT + r"(?:[^\[]{0,60}I/O error|failed to convert|Delayed block allocation failed)",
        "fs/ext4/super.c",
    ),
    _local(
        "filesystem_error",
        "Aborting JBD2:",
        r"(?:JBD2: )?(?:Aborting journal on device|Detected aborted journal.{0,4}|Error -?\d{1,4} "
        rf"detected when updating journal superblock for) {REAL_DEVICE}"
        r"(?P<block_device>[^,:)\]\s]{1,64}?)(?:-\d{1,10})?\.?(?:\s|$)",
        "fs/jbd2/journal.c",
        filesystem="ext4",
    ),
    _local(
        "filesystem_read_only",
        "XFS",
        rf"XFS \({BLOCK_DEVICE}\): [^\[]{{0,120}}?(?:[Ss]hut(?:ting)? ?down|has been shut down)",
        "fs/xfs/xfs_fsops.c",
        filesystem="xfs",
    ),
    _local(
        "filesystem_error",
        "XFS",
        rf"XFS \({BLOCK_DEVICE}\): [^\[]{{0,120}}?(?:[Cc]orruption|I/O [Ee]rror)",
        "fs/xfs",
        filesystem="xfs",
    ),
    _local(
        "filesystem_read_only",
        "BTRFS BTRFS:",
        rf"BTRFS:? (?:info|warning|error|critical) \(device {BLOCK_DEVICE}[^)]{{0,40}}\)"
        r".{0,80}?forced readonly",
        "fs/btrfs/super.c",
        filesystem="btrfs",
    ),
    _local(
        "filesystem_error",
        "BTRFS BTRFS:",
        rf"BTRFS:? (?:error|critical) \(device {BLOCK_DEVICE}[^)]{{0,40}}\)",
        "fs/btrfs/messages.c",
        filesystem="btrfs",
    ),
    _local(
        "filesystem_read_only",
        "FAT-fs F2FS-fs NILFS UDF-fs: REISERFS JFS: GFS2: OCFS2: bcachefs",
        r"(?P<filesystem>FAT|F2FS|NILFS|UDF|REISERFS|JFS|GFS2|OCFS2|bcachefs)(?:-fs)?:? "
        rf"(?:\((?:device )?{BLOCK_DEVICE}\):? ?)?"
        r"[^\[]{0,120}?(?:set read-only|[Rr]emount(?:ing|ed)? .{0,24}read-only|going read-only|"
        r"emergency read only)",
        "fs/fat, f2fs, nilfs2, udf, jfs, gfs2, ocfs2",
    ),
    line(
        "filesystem_read_only",
        "fs/jfs/super.c, fs/ocfs2/super.c and others",
        "",
        rf"(?:[A-Za-z][\w-]{{0,15}}:? ){{1,2}}\((?:device )?{BLOCK_DEVICE}\):? "
        r"[Rr]emounting filesystem (?:as )?read-only",
        needle="emounting filesystem",
    ),
    line(
        "filesystem_read_only",
        "fs/gfs2/util.c",
        "gfs2: GFS2:",
        r"(?:gfs2|GFS2): fsid=(?P<block_device>[^ \[]{1,64}?):? "
        r"[^\[]{0,80}?(?:about to withdraw|withdrawn)",
        filesystem="gfs2",
    ),
    _local(
        "filesystem_read_only",
        "OCFS2:",
        r"OCFS2: File system is now read-only",
        "fs/ocfs2/super.c",
        filesystem="ocfs2",
    ),
    _local(
        "filesystem_read_only",
        "WARNING:",
        r"WARNING: Pool '(?P<block_device>[\w:. -]{1,64})' has encountered an uncorrectable I/O "
        r"failure and has been suspended",
        "OpenZFS module/zfs/zio.c",
        filesystem="zfs",
    ),
    _gone(
        "nfs: lockd: NFS:",
        rf"(?:nfs|lockd|NFS): server {_SERVER} (?:is )?(?:not responding|timed out)",
        "nfs",
        _NFS,
    ),
    _back("nfs: lockd: NFS:", rf"(?:nfs|lockd|NFS): server {_SERVER} OK", "nfs", _NFS),
    _gone(
        "NFS:",
        rf"NFS: state manager(?:: .{{1,60}}?)? failed on NFSv4 server {_SERVER} with error",
        "nfs",
        "fs/nfs/nfs4state.c",
        "state lost",
    ),
    _gone(
        "LustreError:",
        rf"LustreError: (?:{_LUSTRE_PLACE}|(?:{_LUSTRE_CODE}|{_LUSTRE_NAMED})(?P<server>"
        r"[^ :]{1,120}?)(?:-(?:mdc|osc|mgc|lwp)-[0-9a-f]{4,16})?[ :])",
        "lustre",
        _LUSTRE,
        "error",
    ),
    _gone(
        "LNetError:",
        rf"LNetError: (?:{_LUSTRE_PLACE}|{_LUSTRE_CODE}|[A-Z][a-z]{{5,20}} )",
        "lustre",
        "lnet",
        "network error",
    ),
    _gone(
        "Lustre:",
        rf"Lustre: {_LUSTRE_IMPORT}Connection to [^ ]{{1,120}} .{{0,80}}was lost",
        "lustre",
        _LUSTRE,
        "connection lost",
    ),
    _gone(
        "Lustre:",
        r"Lustre: \d{1,10}:\d{1,10}:\([\w.-]{1,64}:\d{1,6}:ptlrpc_expire_one_request\(\)\) "
        r"@@@ Request sent has (?:timed out|failed)",
        "lustre",
        "lustre/ptlrpc/client.c",
    ),
    _back(
        "Lustre:",
        rf"Lustre: {_LUSTRE_IMPORT}Connection restored to ",
        "lustre",
        _LUSTRE,
    ),
    _gone(
        "ceph:",
        _CEPH + r"(?P<server>mds\d{1,6}) (?:hung(?=\s{0,4}$)|caps (?:went )?stale|"
        r"rejected session|closed our session|reconnect denied)",
        "ceph",
        _CEPHFS,
    ),
    _back(
        "ceph:",
        _CEPH + r"(?P<server>mds\d{1,6}) (?:came back|caps renewed|recovery completed|reconnect "
        r"success)",
        "ceph",
        _CEPHFS,
    ),
    _gone(
        "libceph:",
        _LIBCEPH + r"(?P<server>(?:mon|osd|mds)\d{1,6})(?: \(\d\)[^ ]{1,80})? (?:session lost|down|"
        r"connect error|socket error|protocol feature mismatch)",
        "ceph",
        _MON,
        "connection lost",
    ),
    _back(
        "libceph:",
        _LIBCEPH + r"(?P<server>(?:mon|osd|mds)\d{1,6})(?: \(\d\)[^ ]{1,80})? (?:session "
        r"established|up)\b",
        "ceph",
        _MON,
    ),
    _gone(
        "CIFS:",
        rf"CIFS: (?:VFS: )?{_SERVER} has not responded in \d{{1,6}} seconds",
        "cifs",
        _CIFS,
    ),
    _gone(
        _WEKA_FIRST,
        _WEKA_HEAD + r"(?:not responding|disconnected|connection (?:to "
        r".{1,80}? )?(?:was )?lost|hung|timed ?out|unreachable|stuck)",
        "weka",
        _WEKA,
    ),
    _back(
        _WEKA_FIRST,
        _WEKA_HEAD + r"(?:reconnected|connection (?:to .{1,80}? )?"
        r"(?:was )?(?:restored|re-?established)|recovered|responding again|resumed)",
        "weka",
        _WEKA,
    ),
    _gone(
        "beegfs:",
        r"beegfs: .{1,64}?\(\d{1,10}\): [^\[]{0,160}?(?:[Cc]onnect(?:ion)? (?:failed|lost|"
        r"error)|not reachable|[Cc]ommunication error)",
        "beegfs",
        "beegfs client module",
    ),
)
