"""XID lines in every form the driver prints."""

from __future__ import annotations

import pytest

from collector.sources.kmsg.parse import parse_text, parse_uuid
from collector.sources.kmsg.parsed_line import ParsedLine
from collector.sources.kmsg.xid_lines import parse_xid
from pipeline.observation import Value


def facts(text: str) -> dict[str, Value]:
    """Facts of the XID in a line; the line must hold one."""
    happening = parse_text(text)
    assert happening is not None
    assert happening.kind == "xid"
    return dict(happening.facts)


@pytest.mark.parametrize(
    ("head", "pci"),
    [
        ("PCI:0000:1b:00", "0000:1b:00"),
        ("PCI:0000:1b:00.0", "0000:1b:00"),
        ("0000:1b:00", "0000:1b:00"),
        ("1B:00", "0000:1b:00"),
        ("PCI:0019:01:00", "0019:01:00"),
        ("PCI:00010000:1B:00", "10000:1b:00"),
    ],
)
def test_address_in_every_spelling(head: str, pci: str) -> None:
    """With and without PCI:, domain and function: one address, spelt one way."""
    assert parse_xid(f"NVRM: Xid ({head}): 31, pid=1, name=a, Ch 00000010") == ParsedLine(
        "xid", pci, {"code": 31, "pid": 1, "process": "a"}
    )


def test_gpud_misses_mig_xids_ours_are_read() -> None:
    """The form with GPU instance and compute instance is an XID of that instance."""
    found = facts(
        "NVRM: Xid (PCI:0000:3b:00 GPU-I:02 GPU-CI:00): 31, pid=7, name=python3, Ch 00000010"
    )
    assert (found["code"], found["gpu_instance"], found["compute_instance"]) == (31, 2, 0)
    assert facts("NVRM: Xid (PCI:0000:3b:00 GPU-I:11): 94")["gpu_instance"] == 11


@pytest.mark.parametrize("code", [8, 13, 79, 119, 154, 172, 1000])
def test_moneo_reads_two_digits_ours_reads_all(code: int) -> None:
    """A code has as many digits as it has."""
    assert facts(f"NVRM: Xid (PCI:0000:3b:00): {code}, pid=7, name=x, words")["code"] == code


def test_no_text_after_the_code() -> None:
    """The number alone is an XID."""
    assert facts("NVRM: Xid (PCI:0000:5d:00): 43") == {"code": 43}


@pytest.mark.parametrize(
    ("text", "pid", "process"),
    [
        ("pid=184513, name=python3, Ch 00000010", 184513, "python3"),
        ("pid=184513, name=my train job, Contained", 184513, "my train job"),
        ("pid='<unknown>', name=<unknown>, GPU has fallen off the bus.", None, None),
        ("pid=<unknown>, name=<unknown>", None, None),
        ("pid=12, name=", 12, None),
        ("pid=12", 12, None),
        ("name=python3", None, None),
        ("pid=12, name=a,b, Ch 1", 12, "a,b"),
        ("pid=12, name=Xid (PCI:0000, Ch", 12, "Xid (PCI:0000"),
    ],
)
def test_process(text: str, pid: int | None, process: str | None) -> None:
    """Names hold blanks, commas and hostile words; <unknown> is no pid and no name."""
    found = facts(f"NVRM: Xid (PCI:0000:5d:00): 45, {text}")
    assert (found.get("pid"), found.get("process")) == (pid, process)


def test_place_on_the_chip() -> None:
    """XID 13 names cluster and multiprocessor: they tell hardware from software."""
    found = facts(
        "NVRM: Xid (PCI:0000:43:00): 13, pid=1, name=a, Graphics SM Warp Exception on (GPC 2, TPC "
        "4, SM 1): Out Of Range Address"
    )
    assert (found["gpc"], found["tpc"], found["sm"]) == (2, 4, 1)


def test_nvlink4_registers() -> None:
    """XID 74 carries the link and REG0 to REG6."""
    found = facts(
        "NVRM: Xid (PCI:0000:5d:00): 74, pid='<unknown>', name=<unknown>, NVLink: fatal error "
        "detected on link 6(0x10000, 0x0, 0x0, 0x0, 0x0, 0x0, 0x0)"
    )
    assert found == {"code": 74, "link": 6, "registers": "0x10000 0x0 0x0 0x0 0x0 0x0 0x0"}


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        (
            "149, NETIR_LINK_EVT Fatal XC0 i0 Link 08 (0x004505c6 0x00000000 0x00000000)",
            {"unit": "NETIR_LINK_EVT", "severity": "fatal", "link": 8, "sub_code": 4},
        ),
        (
            "149, NETIR_LINK_EVT  Fatal   XC0 i0 Link 01 (0x021425c6 0x00000000)",
            {"sub_code": 33, "link": 1},
        ),
        (
            "149, NETIR_LINK_EVT Fatal XC0 i0 Link 00 (0x026001c6 0x00000000)",
            {"sub_code": 38, "link": 0},
        ),
        (
            "149, NETIR Fatal XC0 i0 Link -1 (0x000fe406 0x00000000)",
            {"sub_code": 0, "link": None, "unit": "NETIR"},
        ),
        (
            "145, RLW_RXPIPE Nonfatal XC0 i0 Link 13 (0x0409a0c2 0x00000008)",
            {"sub_code": 0, "severity": "nonfatal", "link": 13},
        ),
        (
            "144, pid=12, name=a b, SAW_MVB Nonfatal XC0 i0 Link 0 (0x00000001 0x00000008)",
            {"pid": 12, "process": "a b", "link": 0},
        ),
        (
            "149, NETIR_LINK_EVT Fatal XC 1 i 2 Link 01 [0x0000000a]",
            {"sub_code": None, "link": 1, "registers": "0x0000000a"},
        ),
        ("149, something of tomorrow's driver", {"sub_code": None, "unit": None}),
    ],
)
def test_nvlink5_decode(words: str, wanted: dict[str, Value | None]) -> None:
    """144 to 150 carry unit, severity, link and interrupt information, whose bits
    20 to 25 are the sub-code.
    """
    found = facts(f"NVRM: Xid (PCI:0018:01:00): {words}")
    assert {name: found.get(name) for name in wanted} == wanted


def test_sub_codes_only_where_they_exist() -> None:
    """The same words under another code are no sub-code."""
    assert "sub_code" not in facts(
        "NVRM: Xid (PCI:0018:01:00): 31, NETIR Fatal XC0 i0 Link 01 (0x026001c6)"
    )


def test_recovery_action() -> None:
    """154 says what was recommended before and what is now."""
    found = facts(
        "NVRM: Xid (PCI:0008:01:00): 154, GPU recovery action changed from 0x0 (None) to 0x2 "
        "(Node Reboot Required)"
    )
    assert (found["recovery_from"], found["recovery_to"]) == (0, 2)


def test_preemptive_removal_names_its_cause() -> None:
    """NVSentinel counted 45 as hardware: newer drivers say which XID came first."""
    assert (
        facts(
            "NVRM: Xid (PCI:0000:dc:00): 45, pid=1, name=python3, Ch 00000001 "
            "caused by previous Xid 149"
        )["caused_by"]
        == 149
    )


@pytest.mark.parametrize(
    "text",
    [
        "NVRM: GPU 0000:91:00.0: GPU has fallen off the bus.",
        "NVRM: GPU at PCI:0000:91:00: GPU has fallen off the bus.",
        (
            "NVRM: The NVIDIA GPU 0000:91:00.0 (PCI ID: 10de:2330) installed in this system has "
            "fallen off the bus and is not responding to commands."
        ),
        (
            "NVRM: The NVIDIA GPU 0000:91:00.0\n"
            "NVRM: (PCI ID: 10de:2330) installed in this system has\n"
            "NVRM: fallen off the bus and is not responding to commands."
        ),
    ],
)
def test_fallen_off_the_bus_without_a_code_is_79(text: str) -> None:
    """The words mean XID 79, and it is told that they named no code."""
    happening = parse_text(text)
    assert happening == ParsedLine("xid", "0000:91:00", {"code": 79, "inferred": True})


@pytest.mark.parametrize(
    "text",
    [
        "systemd[1]: Started NVRM: Xid looking unit name.",
        "systemd[1]: NVRM: Xid (PCI:0000:1b:00): 79, GPU has fallen off the bus.",
        " NVRM: Xid (PCI:0000:1b:00): 79",
        "NVRM: Xid (PCI:0000:1b:00): abc, pid=1",
        "NVRM: Xid (PCI:0000:1b:00): , pid=1",
        "NVRM: Xid : 32, pid=2280636",
        "NVRM: Xid (PCI:zz:1b:00): 79",
        "NVRM: Xid (PCI:0000:1b:00): 79 and more",
        "nvidia-nvlink: Xid (PCI:0000:1b:00): 79",
        "NVRM: loading NVIDIA UNIX Open Kernel Module for x86_64  580.95.05  Release Build",
        "NVRM: Xid (PCI:0000:1b:00): 123456789",
    ],
)
def test_what_is_no_xid(text: str) -> None:
    """The line must begin with NVRM and hold address and number: what a process puts
    into its name is no XID.
    """
    happening = parse_text(text)
    assert happening is None or happening.kind != "xid"


def test_uuid_line() -> None:
    """Before the first XID of a GPU the driver names its UUID."""
    line = "NVRM: GPU at PCI:0000:91:00: GPU-b6c3b2be-c55b-d076-fa0e-d464e4c7e08b"
    assert parse_uuid(line) == ("0000:91:00", "GPU-b6c3b2be-c55b-d076-fa0e-d464e4c7e08b")
    assert parse_uuid("NVRM: GPU at PCI:0000:91:00: GPU-nonsense") is None
