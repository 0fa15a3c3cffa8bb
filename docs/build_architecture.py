"""Draws docs/images/architecture.svg from two tables, boxes and arrows: `make docs`."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from pathlib import Path
from typing import NamedTuple

TARGET = Path(__file__).resolve().parent / "images" / "architecture.svg"
WIDTH, HEIGHT = 1100, 690
LINE = 16  # between two lines of text

# An image on a page cannot see the page's theme: it has a background of its own, and follows the
# reader's preference.
STYLE = """
svg { --back: #ffffff; --ink: #1f2328; --soft: #57606a; --edge: #8c959f;
  --frame: #f6f8fa; --agent: #ddf4ff; --child: #fff8c5; --disk: #dafbe1; --outside: #ffffff; }
@media (prefers-color-scheme: dark) {
  svg { --back: #0d1117; --ink: #e6edf3; --soft: #9da7b3; --edge: #6e7681;
    --frame: #161b22; --agent: #12324f; --child: #4b3a08; --disk: #12351f; --outside: #21262d; }
}
text { fill: var(--ink); font: 13px sans-serif; text-anchor: middle; }
.title { font-weight: bold; }
.label { fill: var(--soft); font-size: 12px; }
.left { text-anchor: start; }
rect { stroke: var(--edge); }
path { fill: none; stroke: var(--soft); stroke-width: 1.5; marker-end: url(#tip); }
"""


class Box(NamedTuple):
    """A rectangle: where it is, what kind (a colour of STYLE), its title and further lines."""

    x: int
    y: int
    width: int
    height: int
    kind: str
    title: str
    lines: tuple[str, ...] = ()


class Arrow(NamedTuple):
    """A line through these points, and a label at a place of its own."""

    points: tuple[tuple[int, int], ...]
    label: str = ""
    at: tuple[int, int] = (0, 0)


FRAMES = (
    Box(192, 136, 676, 344, "frame", "Agent process"),
    Box(192, 504, 676, 166, "frame", "storage.path on the node's disk"),
)
A, B, C, D, E = 12, 208, 440, 660, 916  # columns
BOXES = (
    Box(A, 62, 156, 44, "outside", "NVIDIA driver", ("libnvidia-ml.so.1",)),
    Box(A, 232, 156, 44, "outside", "InfiniBand, RoCE", ("sysfs, perfquery",)),
    Box(A, 294, 156, 44, "outside", "Kernel log", ("/dev/kmsg",)),
    Box(A, 356, 156, 44, "outside", "Jobs", ("NCCL RAS, dumps, logs",)),
    Box(A, 418, 156, 44, "outside", "Host", ("/proc, kubelet, Slurm",)),
    Box(B, 62, 156, 44, "child", "Driver child", ("all NVML calls",)),
    Box(B, 170, 156, 44, "agent", "nvml", ("every second",)),
    Box(B, 232, 156, 44, "agent", "infiniband", ("every second",)),
    Box(B, 294, 156, 44, "agent", "kmsg", ("every second",)),
    Box(B, 356, 156, 44, "agent", "nccl, joblog", ("every 5 s",)),
    Box(B, 418, 156, 44, "agent", "jobs, host", ("every second, minute",)),
    Box(C, 194, 156, 76, "agent", "Engine", ("one observation", "at a time")),
    Box(C, 340, 156, 92, "agent", "Judge", ("counter increments", "detectors", "incidents")),
    Box(D, 170, 180, 44, "agent", "Exposition", ("last values, findings",)),
    Box(D, 232, 180, 44, "agent", "Log", ("findings, incidents",)),
    Box(D, 294, 180, 44, "agent", "Snapshots", ("memory of the judge",)),
    Box(D, 356, 180, 44, "agent", "XID counts", ("queue, thread",)),
    Box(D, 418, 180, 44, "agent", "Store writer", ("queue, thread",)),
    Box(E, 170, 168, 44, "outside", "Prometheus", ("rules/tocsin.yaml",)),
    Box(E, 96, 168, 36, "outside", "Alertmanager"),
    Box(E, 22, 168, 36, "outside", "Pager"),
    Box(B, 536, 156, 60, "disk", "state/", ("snapshot, inventory,", "XID counts")),
    Box(D, 536, 180, 44, "disk", "wal/", ("fsync every second",)),
    Box(D, 614, 180, 44, "disk", "Parquet", ("a folder per table",)),
    Box(E, 536, 168, 60, "child", "Seal child", ("every 15 minutes,", "3 s after a page")),
    Box(E, 626, 168, 44, "outside", "Object store", ("s3, gs, az, directory",)),
    Box(C, 614, 156, 44, "child", "tocsin replay", ("the same judge",)),
)
RIGHT_OF_B, LEFT_OF_C, RIGHT_OF_C = B + 156, C, C + 156
ARROWS = (
    Arrow(((A + 156, 84), (B, 84))),
    Arrow(((340, 106), (340, 170)), "pipe, deadline", (390, 124)),
    *(Arrow(((A + 156, y), (B, y))) for y in (254, 316, 378, 440)),
    *(
        Arrow(((RIGHT_OF_B, y), (402, y), (402, 232), (LEFT_OF_C, 232)))
        for y in (192, 254, 316, 378, 440)
    ),
    Arrow(((490, 270), (490, 340)), "observation", (449, 308)),
    Arrow(((546, 340), (546, 270)), "findings", (576, 308)),
    *(Arrow(((RIGHT_OF_C, 232), (630, 232), (630, y), (D, y))) for y in (192, 254, 316, 378, 440)),
    Arrow(((D + 180, 192), (E, 192)), ":9400", (892, 184)),
    Arrow(((1000, 170), (1000, 132))),
    Arrow(((1000, 96), (1000, 58))),
    Arrow(((462, 432), (462, 560), (364, 560)), "each minute", (414, 552)),
    Arrow(((364, 580), (496, 580), (496, 432)), "at start", (414, 596)),
    Arrow(((750, 462), (750, 536))),
    Arrow(((D + 180, 558), (E, 558))),
    Arrow(((E, 584), (888, 584), (888, 636), (D + 180, 636))),
    Arrow(((1000, 596), (1000, 626)), "upload", (1026, 616)),
    Arrow(((D, 636), (RIGHT_OF_C, 636))),
    Arrow(((546, 614), (546, 432)), "observations", (590, 500)),
)
TIP = (
    '<marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" '
    'orient="auto"><path d="M0 0L8 4L0 8z" style="fill:var(--soft);stroke:none;marker-end:none"/>'
    "</marker>"
)


def picture() -> str:
    """The whole document."""
    parts = [*map(_frame, FRAMES), *map(_arrow, ARROWS), *map(_box, BOXES), *_legend()]
    parts += [_label(arrow) for arrow in ARROWS if arrow.label]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
        f'width="{WIDTH}" height="{HEIGHT}" role="img">\n'
        "<title>From the driver to the pager</title>\n"
        f"<style>{STYLE}</style>\n<defs>{TIP}</defs>\n"
        '<rect width="100%" height="100%" style="fill:var(--back);stroke:none"/>\n'
        + "\n".join(parts)
        + "\n</svg>\n"
    )


def _rect(box: Box) -> str:
    return (
        f'<rect x="{box.x}" y="{box.y}" width="{box.width}" height="{box.height}" rx="6" '
        f'style="fill:var(--{box.kind})"/>'
    )


def _frame(box: Box) -> str:
    return (
        f'{_rect(box)}<text class="label left" x="{box.x + 10}" y="{box.y + 18}">{box.title}</text>'
    )


def _box(box: Box) -> str:
    rows = 1 + len(box.lines)
    first = box.y + box.height / 2 - (rows - 1) * LINE / 2 + 4.5
    text = (
        f'<text class="title" x="{box.x + box.width // 2}" y="{first:g}">{escape(box.title)}</text>'
    )
    for row, line in enumerate(box.lines, start=1):
        y = first + row * LINE
        text += f'<text class="label" x="{box.x + box.width // 2}" y="{y:g}">{escape(line)}</text>'
    return _rect(box) + text


def _arrow(arrow: Arrow) -> str:
    return f'<path d="M{"L".join(f"{x} {y}" for x, y in arrow.points)}"/>'


def _label(arrow: Arrow) -> str:
    x, y = arrow.at
    return f'<text class="label" x="{x}" y="{y}">{escape(arrow.label)}</text>'


def _legend() -> Iterator[str]:
    kinds = (("agent", "part of the agent"), ("child", "process of its own"), ("disk", "file"))
    for row, (kind, meaning) in enumerate(kinds):
        y = 536 + 24 * row
        yield _rect(Box(A, y, 16, 14, kind, ""))
        yield f'<text class="label left" x="{A + 24}" y="{y + 11}">{meaning}</text>'


def main() -> None:
    """Write the picture."""
    TARGET.write_text(picture(), encoding="utf-8")
    print(f"{TARGET.name}: {len(BOXES)} boxes, {len(ARROWS)} arrows")


if __name__ == "__main__":
    main()
