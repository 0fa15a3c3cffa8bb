"""A name that a tenant chose is no evidence, in whatever line the kernel prints it."""

from __future__ import annotations

import re
from collections.abc import Iterable

import pytest

from collector.sources.kmsg.classes import CLASSES
from collector.sources.kmsg.joiner import Joiner
from collector.sources.kmsg.parse import parse_text, parse_uuid
from collector.sources.kmsg.records import Record
from tests.collector.sources.kmsg.chosen import (
    CRASHES,
    DEVICES,
    MAX_COMM,
    PROCESSES,
    UNKNOWN,
    Form,
)
from tests.collector.sources.kmsg.corpus import CORPUS
from tests.collector.sources.kmsg.test_host_lines import LINES

EXAMPLES = tuple(
    dict.fromkeys([*(text for text, *_ in LINES), *(text for one in CORPUS for text in one.texts)])
)
# Names that were evidence once, a name of the process and a name of the file.
FORGERIES = (
    ("NVRM: x", "NV_ERR_GPU_IS_LOST"),
    ("NVRM: x", "GPU is probably locked"),
    ("NVRM: x", "NV_ERR_RESET_REQUIRED"),
    ("NVRM: abcdefghi", "NV_ERR_GPU_IS_LOST"),
    ("NVRM: x", "GSP timeout"),
    ("NVRM: x", "postRxDetLinkMask failed"),
    ("NVRM: x", "NV_ERR_ imex"),
    ("nvidia_peermem:", " ERROR detected invalid context"),
    ("LNetError: x", "x"),
    ("LNetError: 1:0:", "(x.c:1:"),
    ("LustreError: x", "x"),
    ("LustreError: 1-", "x"),
    ("XFS (sda1): x", "shutdown"),
    ("XFS (sda1): x", "I/O Error"),
    ("EXT4-fs (sda):", "I/O error"),
    ("kernel BUG at x", "x"),
    ("kernel BUG at a", ":1!"),
    ("weka: recovered", "x"),
    ("weka: stuck", "x"),
    ("[weka] x", "connection lost"),
    ("weka: x", "/mnt/weka: connection to backend 10.0.0.7 restored"),
    ("ceph: mds0 hung", "x"),
    ("BUG: KASAN", "x"),
    ("BUG: KFENCE", "x"),
    ("Oops: x", "[#1]"),
    ("Oops: ", "x: 0000 [#1]"),
    ("JFS: x", "going read-only"),
    ("UDF-fs: x", "set read-only"),
    ("BTRFS: error", "forced readonly"),
    ("gfs2: fsid=a: b", "withdrawn"),
    ("beegfs: x", "not reachable"),
    ("beegfs: x(1): y", "communication error"),
    ("EDAC MC0: 1 UE ", "x on DIMM0"),
    ("EDAC MC0: 1 CE", " on DIMM0"),
    ("MCE 0x1: x", "unhandlable page"),
    ("infiniband: x", "Admin queue is closed"),
    ("ata1: disabled", "x"),
    ("WARNING: Pool '", "' has encountered an uncorrectable I/O failure and has been suspended"),
    ("Task in /x", " killed as a result of limit of /y"),
    ("a", "(sda1): remounting filesystem as read-only"),
    ("a", "b: attempt to access beyond end of device\nsda: rw=0"),
    ("x", "5 callbacks suppressed"),
)


def kinds_of(text: str) -> set[str]:
    """What comes out for a line, also late."""
    joiner = Joiner()
    found = [joiner.feed(Record(text)), *(late for _, late in joiner.overdue(final=True))]
    assert joiner.held.keys() <= {"error sda"}, text  # nothing waits for a line that follows
    assert parse_uuid(text) is None
    return {one.kind for one in found if one}


def unique(names: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """Names as the kernel cuts them, each pair once."""
    return list(dict.fromkeys((comm[:MAX_COMM], file) for comm, file in names))


WORDS = tuple({word for row in CLASSES for word in (*row.first, row.needle) if word})
PHRASES = tuple({one for text in EXAMPLES for one in re.findall(r"[\w./ -]{9,}", text)})
OF_ONE_ROW = unique(
    [(text, text[at:]) for text in EXAMPLES for at in (0, MAX_COMM)]
    + [(f"{text.partition(' ')[0]} x", text) for text in EXAMPLES]
)
OF_TWO = unique((f"{word} x", phrase) for word in WORDS for phrase in (*WORDS, *PHRASES))


@pytest.mark.parametrize("form", PROCESSES, ids=lambda form: form.text[:40])
def test_names_that_were_evidence_once_are_none(form: Form) -> None:
    """A line about a process is at most the event of that line, whatever its names are."""
    wrong = {
        text: found
        for text in (form.line(*names) for names in FORGERIES)
        if (found := kinds_of(text) - form.kinds)
    }
    assert wrong == {}


@pytest.mark.slow
@pytest.mark.parametrize("form", PROCESSES, ids=lambda form: form.text[:40])
def test_no_name_made_of_the_rows_is_evidence(form: Form) -> None:
    """The example of each row, as names of process and file."""
    lines = [form.line(*names) for names in OF_ONE_ROW]
    wrong = {text: found for text in lines if (found := kinds_of(text) - form.kinds)}
    assert wrong == {}


@pytest.mark.slow
@pytest.mark.parametrize("form", [CRASHES[0], UNKNOWN], ids=lambda form: form.text[:40])
def test_no_name_made_of_two_rows_is_evidence(form: Form) -> None:
    """The first words of each row and the words of each other."""
    lines = [form.line(*names) for names in OF_TWO]
    wrong = {text: found for text in lines if (found := kinds_of(text) - form.kinds)}
    assert wrong == {}


@pytest.mark.parametrize("form", DEVICES, ids=lambda form: form.text[:40])
def test_the_name_of_a_network_device_is_no_evidence(form: Form) -> None:
    """Words of the rows as names of a device in a namespace of the tenant's own."""
    heads = {word.rstrip(":") for row in CLASSES for word in row.first}
    verbs = ("recovered", "resumed", "reconnected", "stuck", "hung", "disconnected", "shutdown")
    lines = [form.line(head, verb) for head in heads for verb in verbs]
    assert {text: found for text in lines if (found := kinds_of(text))} == {}


@pytest.mark.parametrize("form", CRASHES[:2], ids=lambda form: form.text[:40])
@pytest.mark.parametrize("comm", ["python3", "NVRM: x", "weka: recovered", "a[1]: b", "a\nb"])
def test_a_crash_in_a_library_of_the_gpu_is_an_event_whatever_the_process_is_called(
    form: Form, comm: str
) -> None:
    """Its own event is not lost, and the name is the name."""
    parsed = parse_text(form.line(comm, "libcuda.so.580.95.05"))
    assert parsed is not None
    assert (parsed.kind, parsed.facts["process"]) == ("segfault", comm)


@pytest.mark.parametrize("comm", ["python3", "NVRM: x", "LNetError: x", "XFS (sda1): x"])
def test_an_access_beyond_the_end_of_a_disk_is_an_event_whatever_the_process_is_called(
    comm: str,
) -> None:
    """The disk is the kernel's word."""
    parsed = parse_text(f"{comm}: attempt to access beyond end of device\nnvme0n1: rw=0, sector=8")
    assert parsed is not None
    assert (parsed.kind, parsed.facts["block_device"]) == ("storage_error", "nvme0n1")


COMMS = (
    "[1]: segfault a",
    ": page allocati",
    "[1] bad frame i",
    "[1]: unhandled ",
    " invoked oom-ki",
)


@pytest.mark.parametrize("comm", COMMS)
@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("NVRM: Xid (PCI:0000:1b:00): 79, pid=42, name={comm}, GPU has fallen off the bus.", "xid"),
        ("EXT4-fs error (device sda1): f:1: inode #2: comm {comm}: reading", "filesystem_error"),
        ("BUG: Bad page state in process {comm}  pfn:12345", "kernel_oops"),
        ("watchdog: BUG: soft lockup - CPU#3 stuck for 23s! [{comm}:99]", "soft_lockup"),
        ("INFO: task {comm}:1234 blocked for more than 120 seconds.", "hung_task"),
        ("beegfs: {comm}(1234): NodeConn: Connect failed: x 10.0.0.8", "network_filesystem_error"),
        (
            "Memory failure: 0x12: Sending SIGBUS to {comm}:7 due to hardware memory corruption",
            "memory_failure",
        ),
    ],
)
def test_no_name_hides_what_the_kernel_says_itself(comm: str, text: str, kind: str) -> None:
    """A process that is called like the words of a crash, in a line about hardware."""
    parsed = parse_text(text.replace("{comm}", comm))
    assert parsed is not None
    assert parsed.kind == kind


def test_a_form_that_nobody_knows_yet_is_withstood_by_the_rows() -> None:
    """What the kernel will print next about a process begins with its name as well."""
    assert kinds_of(UNKNOWN.line("XFS (sda1): x", "shutdown")) == set()


@pytest.mark.parametrize(
    ("text", "kind", "facts"),
    [
        (
            "Oops: Kernel access of bad area, sig: 11 [#1]",
            "kernel_oops",
            {"reason": "oops"},
        ),
        ("Oops: Oops: 0002 [#1] PREEMPT SMP NOPTI", "kernel_oops", {"reason": "oops"}),
        (
            "Oops: general protection fault, probably for non-canonical address 0xde: 0000 [#1] x",
            "kernel_oops",
            {"reason": "oops"},
        ),
        (
            "BUG: #DF stack guard page was hit at 00000000abcdef01 (stack is 1..2)",
            "kernel_oops",
            {"reason": "memory access"},
        ),
        ("BUG: KFENCE: use-after-free read in f+0x1/0x2", "kernel_oops", {}),
        (
            "LustreError: 166-1: MGC10.0.0.1@o2ib: Connection to MGS (at 10.0.0.1@o2ib) was lost",
            "network_filesystem_error",
            {"server": "MGC10.0.0.1@o2ib"},
        ),
        (
            "LustreError: 15c-8: MGC10.0.0.1@o2ib: The configuration from log failed",
            "network_filesystem_error",
            {},
        ),
        (
            "LustreError: work-OST0001-osc-ffff8881: operation ost_connect to node: rc = -16",
            "network_filesystem_error",
            {"server": "work-OST0001"},
        ),
        (
            "LNetError: 120-3: Refusing connection from 10.0.0.1 for 10.0.0.2@o2ib: No matching NI",
            "network_filesystem_error",
            {"reason": "network error"},
        ),
        (
            "LNetError: Connection to 10.0.0.1@o2ib was closed by the peer",
            "network_filesystem_error",
            {},
        ),
        (
            "weka: /mnt/weka: backend 10.0.0.7 unreachable",
            "network_filesystem_error",
            {"server": "/mnt/weka"},
        ),
        (
            "wekafsio: backend 10.0.0.7 timed out",
            "network_filesystem_error",
            {"server": "10.0.0.7"},
        ),
        (
            "NVRM: GPU0 GSP RPC buffer contains a timeout of function 76",
            "gpu_driver_error",
            {"reason": "GSP timeout"},
        ),
        (
            "NVRM: [GPU0] gpuHandleSanityCheckRegReadError_GM107: NV_ERR_GPU_IS_LOST",
            "gpu_driver_error",
            {"reason": "GPU lost"},
        ),
    ],
)
def test_what_the_kernel_says_itself_is_read_in_all_its_forms(
    text: str, kind: str, facts: dict[str, str]
) -> None:
    """Spellings of other releases and machines, which a narrow row would lose."""
    parsed = parse_text(text)
    assert parsed is not None
    assert (parsed.kind, {**parsed.facts, **facts}) == (kind, parsed.facts)
