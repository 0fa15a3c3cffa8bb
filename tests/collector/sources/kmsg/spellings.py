"""One kernel record in every way that dmesg, journalctl, syslog daemons and Talos write it.

``SPELLINGS`` has a function for each, which gets records (text and microseconds since boot) and
gives the file, and how exactly the file says when they happened: in microseconds, 0 for not at all.
Forms: util-linux sys-utils/dmesg.c, systemd src/shared/logs-show.c, RFC 3164, RFC 5424,
siderolabs/go-kmsg.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from datetime import UTC, datetime

BOOTED_NS = 1_733_064_600_000_000_000  # 2024-12-01 14:50:00 UTC
MICROSECOND, SECOND, MINUTE, NOT_AT_ALL = 1, 1_000_000, 60_000_000, 0

Records = Sequence[tuple[str, int]]
Spelling = Callable[[Records], str]


def unix_ns(usec: int) -> int:
    """Unix time of a kernel time."""
    return BOOTED_NS + usec * 1000


def _utc(usec: int) -> datetime:
    return datetime.fromtimestamp(unix_ns(usec) // 1000 / 1e6, UTC)


def _local(usec: int, form: str) -> str:
    return datetime.fromtimestamp(unix_ns(usec) // 1000 / 1e6).strftime(form)  # noqa: DTZ006 - as dmesg


def _mono(usec: int) -> str:
    return f"[{usec // 1_000_000:5d}.{usec % 1_000_000:06d}]"


def _each(head: Callable[[int], str], *, indent: str = "               ") -> Spelling:
    """Each record on a line of its own after its head; further lines of it indented."""

    def spell(records: Records) -> str:
        return "".join(
            f"{head(usec)}{text.replace(chr(10), chr(10) + indent)}\n" for text, usec in records
        )

    return spell


def _syslog(head: Callable[[int], str]) -> Spelling:
    """As rsyslog: one line, control characters escaped."""

    def spell(records: Records) -> str:
        return "".join(f"{head(usec)}{text.replace(chr(10), '#012')}\n" for text, usec in records)

    return spell


def _classic(usec: int) -> str:
    return _local(usec, "%b %e %H:%M:%S")


def _iso(usec: int, timespec: str = "microseconds") -> str:
    return _utc(usec).isoformat(timespec=timespec)


def _relative(records: Records) -> str:
    """As dmesg -e: the minute once, then the time since the line before."""
    lines, before = [], -1
    for text, usec in records:
        minute = unix_ns(usec) // 60_000_000_000
        stamp = (
            _local(usec, "[%b%e %H:%M]")
            if before < 0 or minute != unix_ns(before) // 60_000_000_000
            else f"[ {f'+{(usec - before) / 1e6:.6f}':>10}]"
        )
        lines.append(f"{stamp} {text.replace(chr(10), chr(10) + ' ' * 14)}\n")
        before = usec
    return "".join(lines)


def _delta(head: Callable[[int, int], str]) -> Spelling:
    def spell(records: Records) -> str:
        before, lines = records[0][1], []
        for text, usec in records:
            lines.append(
                f"{head(usec, usec - before)}{text.replace(chr(10), chr(10) + ' ' * 30)}\n"
            )
            before = usec
        return "".join(lines)

    return spell


def _gap(usec: int) -> str:
    return f"<{usec // 1_000_000:5d}.{usec % 1_000_000:06d}>"


def _dmesg_json(records: Records) -> str:
    objects = [
        f'{{\n         "pri": 3,\n         "time": {usec / 1e6:12.6f},\n'
        f'         "msg": {json.dumps(text, ensure_ascii=False)}\n      }}'
        for text, usec in records
    ]
    return '{\n   "dmesg": [\n      ' + ",".join(objects) + "\n   ]\n}\n"


def _fields(text: str, usec: int) -> dict[str, str]:
    return {
        "__CURSOR": f"s=1;i={usec:x}",
        "__REALTIME_TIMESTAMP": str(unix_ns(usec) // 1000 + 40),
        "__MONOTONIC_TIMESTAMP": str(usec + 40),
        "_BOOT_ID": "b" * 32,
        "_TRANSPORT": "kernel",
        "PRIORITY": "3",
        "SYSLOG_FACILITY": "0",
        "SYSLOG_IDENTIFIER": "kernel",
        "_SOURCE_MONOTONIC_TIMESTAMP": str(usec),
        "MESSAGE": text,
    }


def _json_lines(records: Records) -> str:
    return "".join(f"{json.dumps(_fields(*record))}\n" for record in records)


def _json_pretty(records: Records) -> str:
    return "".join(f"{json.dumps(_fields(*record), indent=chr(9))}\n" for record in records)


def _export(records: Records) -> str:
    """A field with newlines comes with its length in eight bytes."""
    lines = []
    for text, usec in records:
        for name, value in _fields(text, usec).items():
            length = len(value.encode()).to_bytes(8, "little").decode("utf-8", "surrogateescape")
            lines.append(f"{name}\n{length}{value}\n" if "\n" in value else f"{name}={value}\n")
        lines.append("\n")
    return "".join(lines)


def _verbose(records: Records) -> str:
    return "".join(
        f"{_utc(usec):%a %Y-%m-%d %H:%M:%S.%f} UTC [s=1;i={usec:x}]\n"
        + "".join(
            f"    {name}={value.replace(chr(10), chr(10) + ' ' * 12)}\n"
            for name, value in _fields(text, usec).items()
            if not name.startswith("__")
        )
        for text, usec in records
    )


def _device(records: Records) -> str:
    r"""As a saved /dev/kmsg: a newline in the text is ``\x0a``."""
    return "".join(
        f"3,{number},{usec},-,caller=T1;{text.replace(chr(10), chr(92) + 'x0a')}\n SUBSYSTEM=pci\n"
        for number, (text, usec) in enumerate(records)
    )


SPELLINGS: dict[str, tuple[Spelling, int]] = {
    "dmesg": (_each(lambda u: f"{_mono(u)} "), MICROSECOND),
    "dmesg -T": (_each(lambda u: _local(u, "[%a %b %e %H:%M:%S %Y] ")), SECOND),
    "dmesg -x": (_each(lambda u: f"kern  :err   : {_mono(u)} "), MICROSECOND),
    "dmesg -x -T": (_each(lambda u: _local(u, "kern  :err   : [%a %b %e %H:%M:%S %Y] ")), SECOND),
    "dmesg -x -t": (_each(lambda _: "kern  :err   : "), NOT_AT_ALL),
    "dmesg iso": (_each(lambda u: f"{_iso(u).replace('.', ',')} "), MICROSECOND),
    "dmesg -x iso": (
        _each(lambda u: f"kern  :err   : {_iso(u).replace('.', ',')} "),
        MICROSECOND,
    ),
    "dmesg -e": (_relative, MINUTE),
    "dmesg -d": (_delta(lambda u, d: f"{_mono(u)[:-1]} {_gap(d)}] "), MICROSECOND),
    "dmesg -d -T": (
        _delta(lambda u, d: _local(u, f"[%a %b %e %H:%M:%S %Y {_gap(d)}] ")),
        SECOND,
    ),
    "dmesg delta": (_delta(lambda _, d: f"[{_gap(d)}] "), NOT_AT_ALL),
    "dmesg -t": (_each(lambda _: ""), NOT_AT_ALL),
    "dmesg -r": (_each(lambda u: f"<3>{_mono(u)} "), MICROSECOND),
    "priority": (_each(lambda _: "<3>"), NOT_AT_ALL),
    "dmesg -J": (_dmesg_json, MICROSECOND),
    "dmesg --color": (
        _each(lambda u: f"\x1b[32m{_mono(u)} \x1b[0m\x1b[31m"),
        MICROSECOND,
    ),
    "caller with a blank": (_each(lambda u: f"{_mono(u)} [ T1234] "), MICROSECOND),
    "caller": (_each(lambda u: f"{_mono(u)}[T1234] "), MICROSECOND),
    "caller on a CPU": (_each(lambda u: f"{_mono(u)}[   C12] "), MICROSECOND),
    "short": (_each(lambda u: f"{_classic(u)} n1 kernel: "), SECOND),
    "short-precise": (
        _each(lambda u: _local(u, "%b %d %H:%M:%S.%f n1 kernel: ")),
        MICROSECOND,
    ),
    "short-iso": (_each(lambda u: _utc(u).strftime("%Y-%m-%dT%H:%M:%S+0000 n1 kernel: ")), SECOND),
    "short-iso-precise": (_each(lambda u: f"{_iso(u)} n1 kernel: "), MICROSECOND),
    "short-full": (
        _each(lambda u: _utc(u).strftime("%a %Y-%m-%d %H:%M:%S UTC n1 kernel: ")),
        SECOND,
    ),
    "short-monotonic": (_each(lambda u: f"{_mono(u)} n1 kernel: "), MICROSECOND),
    "short-delta": (
        _delta(lambda u, d: f"{_mono(u)[:-1]} {_gap(d)[:-1]} >] n1 kernel: "),
        MICROSECOND,
    ),
    "short-unix": (
        _each(lambda u: f"{unix_ns(u) // 10**9}.{u % 10**6:06d} n1 kernel: "),
        MICROSECOND,
    ),
    "cat": (_each(lambda _: "", indent="        "), NOT_AT_ALL),
    "json": (_json_lines, MICROSECOND),
    "json-pretty": (_json_pretty, MICROSECOND),
    "export": (_export, MICROSECOND),
    "verbose": (_verbose, MICROSECOND),
    "RFC 3164": (_syslog(lambda u: f"{_classic(u)} n1 kernel: {_mono(u)} "), SECOND),
    "RFC 3164 with priority": (_syslog(lambda u: f"<3>{_classic(u)} n1 kernel: "), SECOND),
    "RFC 3339": (_syslog(lambda u: f"{_iso(u)} n1 kernel: {_mono(u)} "), MICROSECOND),
    "RFC 3339 with priority": (_syslog(lambda u: f"<3>{_iso(u)} n1 kernel: "), MICROSECOND),
    "RFC 5424": (_syslog(lambda u: f"<3>1 {_iso(u)} n1 kernel - - - "), MICROSECOND),
    "RFC 5424 without priority": (
        _syslog(lambda u: f'1 {_iso(u)} n1 kernel 1 - [x@1 a="b"] \ufeff{_mono(u)} '),
        MICROSECOND,
    ),
    "leading kernel": (_each(lambda _: "kernel: "), NOT_AT_ALL),
    "leading kernel with a time": (_each(lambda u: f"kernel: {_mono(u)} "), MICROSECOND),
    "Talos": (
        _syslog(lambda u: f"kern:     err: [{_iso(u).removesuffix('+00:00')}Z]: "),
        MICROSECOND,
    ),
    "/dev/kmsg": (_device, MICROSECOND),
}
