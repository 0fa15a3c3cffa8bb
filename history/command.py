"""``tocsin import``: what a site's Prometheus has recorded, as a store for replay and query."""

from __future__ import annotations

import argparse
import re
import sys
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from collector import client
from collector.cli.parser import Parser
from collector.cli.terminal import plain
from collector.cli.time_args import interval
from collector.config.error import ConfigError
from pipeline.extras import how_to_add

if TYPE_CHECKING:
    from history.importing import Found, Progress
    from history.kernel_logs.book import KernelLogs
    from history.site.series import Site

NAME = "import"
USAGE = "import (URL | tsdb DIR) --to DIR [--since TIME] [--until TIME] [--mapping FILE] [options]"
HELP = "Turn what Prometheus recorded of dcgm-exporter and node_exporter into a store."
EXAMPLE = """\
Examples:
  tocsin import http://prometheus:9090 --since 90d --to history
  tocsin import https://prometheus.example/ --token-file token --since 30d --to history
  tocsin import tsdb /backup/snapshots/20261101 --since 2026-08-01 --to history
  tocsin import http://victoria:8428 --print-mapping > mapping.yaml
  tocsin import http://victoria:8428 --mapping mapping.yaml --since 30d --to history
  tocsin replay --from history --off-trial | jq 'select(.severity == "page")'

Read are raw samples: by remote read from Prometheus, by export from VictoriaMetrics, else by
queries. A run that was interrupted goes on where it was when it is started again, and a store that
is complete up to then is brought up to date."""
EXIT_CODES = (
    "Exit codes: 0 success; 1 the site or the disk failed, what was read is kept; 2 invalid "
    "command line or mapping; 130 interrupted by Ctrl-C."
)
DEFAULT_SINCE = "90d"
MAX_NAMES = 3  # that are shown
LABEL = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")


def options(parser: Parser) -> None:
    """From where, of when, to where."""
    parser.add_argument(
        "source",
        nargs="+",
        metavar="URL",
        help="base URL of Prometheus, VictoriaMetrics, ..., or tsdb and a folder of blocks",
    )
    parser.add_argument(
        "--to", default="", metavar="DIR", help="folder of the store that is written"
    )
    parser.add_argument(
        "--since",
        default="",
        metavar="TIME",
        help=f"begin: a time, or a time ago (default: {DEFAULT_SINCE} before the end)",
    )
    parser.add_argument("--until", default="", metavar="TIME", help="end (default: now)")
    parser.add_argument(
        "--print-mapping", action="store_true", help="print the proposed mapping, import nothing"
    )
    site_options(parser)
    log_options(parser)


def site_options(parser: Parser) -> None:
    """How a site is asked, and what its labels mean."""
    parser.add_argument(
        "--mapping",
        default="",
        metavar="FILE",
        help="which labels name node, GPU and job (default: proposed from what is found)",
    )
    parser.add_argument("--cluster", default="", metavar="NAME", help="name of the cluster")
    connection_options(parser)


def connection_options(parser: Parser) -> None:
    """As whom a site is asked."""
    parser.add_argument(
        "--token-file", default="", metavar="FILE", help="a file with a bearer token"
    )
    parser.add_argument(
        "--header",
        action="append",
        default=[],
        metavar="NAME:VALUE",
        help="of each question (X-Scope-OrgID:team); repeatable",
    )
    parser.add_argument(
        "--only",
        action="append",
        default=[],
        metavar="LABEL=VALUE",
        help="series with this label alone, as cluster=a; repeatable",
    )
    client.options(parser)


def log_options(parser: Parser) -> None:
    """Kernel logs that are imported too."""
    parser.add_argument(
        "--kernel-log",
        action="append",
        default=[],
        metavar="PATH",
        help="kernel logs, a file or folder, or NODE=PATH; repeatable",
    )
    parser.add_argument(
        "--loki", default="", metavar="URL", help="base URL of a Loki with kernel logs"
    )
    parser.add_argument(
        "--loki-query", default="", metavar="LOGQL", help="its streams with kernel lines"
    )
    parser.add_argument(
        "--loki-token", default="", metavar="FILE", help="a file with a bearer token for it"
    )


def run(args: argparse.Namespace) -> int:
    """Import; 0, or 1 where the site or the disk failed."""
    try:
        from history import importing  # noqa: PLC0415 - it needs pyarrow and the extra `history`
        from history.site.series import SiteError  # noqa: PLC0415
    except ModuleNotFoundError as error:
        raise ConfigError(f"import needs {error.name}: {how_to_add('history')}") from None
    if not (args.to or args.print_mapping):
        raise ConfigError("--to DIR: where the store is written")
    root = Path(args.to)
    if args.to and not importing.is_empty_or_ours(root):
        raise ConfigError(f"--to {root}: not empty, and no import of before")
    try:
        return _import(args, root)
    except (SiteError, OSError) as error:
        print(f"tocsin: {error}", file=sys.stderr)
        return 1


def _import(args: argparse.Namespace, root: Path) -> int:
    from history.meaning import labels  # noqa: PLC0415

    site, found, span = find(args, args.source)
    if args.print_mapping:
        print(labels.text(found.labels), end="")
        return 0
    done = bring(args, site, found, root, span)
    for line in report(found, done):
        print(line)
    return 0


def find(args: argparse.Namespace, source: Sequence[str]) -> tuple[Site, Found, tuple[int, int]]:
    """The site at a URL, or in a folder (``tsdb DIR``), what it has, and the span that is asked
    for, unix ms. SiteError, ConfigError.
    """
    from history import importing  # noqa: PLC0415
    from history.meaning import labels  # noqa: PLC0415

    now_ms = time.time_ns() // 1_000_000
    args.until = args.until or "now"
    since_us, until_us = interval(args, now_ms * 1000, default=DEFAULT_SINCE)
    span = (since_us or 0) // 1000, (until_us or 0) // 1000
    mapping = labels.read(Path(args.mapping)) if args.mapping else None
    site = site_at(args, source, now_ms, mapping.metrics if mapping else ())
    found = importing.find(site, *span, mapping)
    print(
        f"{site.about} ({site.how}): {len(found.metrics)} metrics are understood", file=sys.stderr
    )
    return site, found, span


def site_at(
    args: argparse.Namespace, source: Sequence[str], now_ms: int, own: Iterable[str] = ()
) -> Site:
    """The site at a URL, or in a folder (``tsdb DIR``); ``own`` are its names of metrics that are
    understood. SiteError, ConfigError.
    """
    from history.site.dump import Blocks  # noqa: PLC0415
    from history.site.http import Http  # noqa: PLC0415
    from history.site.open import site_of  # noqa: PLC0415

    only = dict(map(_only, args.only))
    if len(source) == 2 and source[0] == "tsdb":
        from history.importing import understood  # noqa: PLC0415

        return Blocks(Path(source[1]), only, {*understood(), *own})
    if len(source) != 1:
        raise ConfigError(f"expected URL, or tsdb DIR, got {' '.join(source)!r}")
    headers = dict(map(_header, args.header))
    http = Http(
        source[0], client.access(args), token_file=args.token_file, headers=headers, only=only
    )
    return site_of(http, now_ms)


def bring(
    args: argparse.Namespace, site: Site, found: Found, root: Path, span: tuple[int, int]
) -> Progress:
    """Import it below a folder, with a bar. SiteError, OSError: what is done is kept."""
    from collector.cli.progress import Progress as Bar  # noqa: PLC0415
    from history import importing  # noqa: PLC0415

    logs = _kernel_logs(args)
    bar = Bar(sys.stderr)
    try:
        return importing.bring(
            site, found, root, span, cluster=args.cluster, logs=logs, advance=bar
        )
    finally:
        bar.close()
        for why, count in sorted((logs.skipped if logs else {}).items()):
            print(f"kernel logs: {count:,} lines left out: {why}", file=sys.stderr)


def _kernel_logs(args: argparse.Namespace) -> KernelLogs | None:
    """The logs that were named; None where none was. SiteError for a file that is not there."""
    if not (args.kernel_log or args.loki):
        return None
    from history.kernel_logs import files, loki  # noqa: PLC0415
    from history.kernel_logs.book import KernelLogs as Logs  # noqa: PLC0415
    from history.site.http import Http  # noqa: PLC0415

    logs = Logs()
    if args.loki:
        headers = dict(map(_header, args.header))
        http = Http(args.loki, client.access(args), token_file=args.loki_token, headers=headers)
        logs.loki = loki.Loki(http, args.loki_query or loki.QUERY).read
    for given in args.kernel_log:
        node, equals, path = given.partition("=")
        named = Path(path) if equals else Path(given)
        for file in files.files_in(named):
            logs.add(files.read(file, node if equals else ""))
    return logs


def _only(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not LABEL.fullmatch(name):
        raise ConfigError(f"--only {text}: expected LABEL=VALUE")
    return name, value


def _header(text: str) -> tuple[str, str]:
    name, colon, value = text.partition(":")
    if not colon or not name.strip() or not value.strip():
        raise ConfigError(f"--header {name}: expected NAME:VALUE")
    return name.strip(), value.strip()


def shared_names(done: Progress) -> list[str]:
    """Names that several machines have, in words; empty where none is shared."""
    names = {name for name, one in done.hosts.items() if one.shared_ms}
    if not names:
        return []
    said = (
        f"contradiction: {len(names)} names of nodes ({some_of(names)}) have GPUs of different "
        "exporters at the same times: of several machines with one name, narrow the import to one, "
        "as with --only cluster=NAME; none of these GPUs counts as absent"
    )
    return [said]


def some_of(names: Iterable[str]) -> str:
    """The first of some names, for a message.

    >>> some_of({"n3", "n1", "n2", "n4"})
    'n1, n2, n3, ...'
    """
    ordered = sorted(map(plain, names))
    return ", ".join(ordered[:MAX_NAMES]) + (", ..." if ordered[MAX_NAMES:] else "")


def report(found: Found, done: Progress) -> list[str]:
    """What there is now, and what was missing."""
    from history.gather import account_of  # noqa: PLC0415

    hosts, gpus, ports = account_of(done.hosts)
    account = done.account
    lines = [
        f"{account.samples:,} samples of {hosts} nodes, {gpus} GPUs and {ports} InfiniBand ports"
    ]
    kinds = Counter(kind for kind, _ in account.columns)
    for kind in sorted(kinds):
        names = ", ".join(name for one, name in sorted(account.columns) if one == kind)
        lines.append(f"{kind}: {kinds[kind]} columns: {names}")
    for (why, name), count in sorted(account.skipped.items()):
        lines.append(f"left out: {count:,} samples of {name}: {why}")
    if account.conflicts:
        lines.append(
            f"left out: {account.conflicts:,} samples that another series of the same device "
            "contradicts"
        )
    lines += shared_names(done)
    if found.strange:
        lines.append(f"not understood: {', '.join(found.strange)}")
    without_boot = sum(not one.boot_ms for one in done.hosts.values())
    if without_boot:
        lines.append(f"{without_boot} nodes without node_boot_time_seconds: reboots look like gaps")
    return lines
