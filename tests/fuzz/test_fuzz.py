"""Every parser of what tenants write withstands a million mutated inputs, and none is without a
target.
"""

from __future__ import annotations

import ast
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

import pytest

from tests.fuzz.mutate import MAX_BYTES, mutated
from tests.fuzz.run import MAX_GROWTH_BYTES, FuzzError, fuzz
from tests.fuzz.targets import TARGETS, Target, counts
from tests.sources import ROOT, files, tree
from tests.wait import PATIENCE_S

INPUTS = 1_000_000
MAX_CPU_S = 120.0  # 40 on two cores of 2026; what is slower than three times that has changed
# Where what tenants write is decoded: a function there that takes bytes, or text under one of these
# names, is a parser.
WHERE = (
    "collector/sources/nccl",
    "collector/sources/joblog",
    "collector/sources/jobs/slurm",
    "collector/sources/kmsg",
    "collector/sources/control_group.py",
    "collector/sources/tail.py",
    "collector/sources/tenants",
)
TEXTS = {"text", "raw", "line", "cgroup", "maps", "mountinfo", "record", "body", "document"}
# Of functions that are no parsers of what tenants write.
EXEMPT = {
    "collector/sources/joblog/pattern.py:compiled": "takes expressions of the source code",
    "collector/sources/kmsg/file_reader.py:_line": "holds lines back; Lines parses them",
    "collector/sources/kmsg/journal_reader.py:_entry": "counts what entry_of, a target, refuses",
    "collector/sources/kmsg/lines.py:continues": "looks at the first byte",
    "collector/sources/kmsg/previous_records.py:_dated": "pstore is written by the kernel alone",
    "collector/sources/kmsg/victim.py:memory_of": "takes a line that parse_text, a target, took",
    "collector/sources/kmsg/victim.py:task_of": "takes a line that parse_text, a target, took",
    "collector/sources/nccl/discovery/procfs.py:environ": "reads; in_memory, a target, parses",
    "collector/sources/tenants/calls.py:unpacked": "in the child: what the agent asks for",
    "collector/sources/tenants/child_desk.py:_answer": "sends what the agent made",
    "collector/sources/tenants/child_desk.py:_exchange": "sends what the agent made",
    "collector/sources/tenants/frames.py:framed": "makes messages",
    "collector/sources/tenants/serve.py:_answer": "in the child: what the agent asks for",
    "collector/sources/tenants/serve.py:_write": "makes messages",
}


def parsers() -> Iterator[str]:
    """``file:function`` of every function that takes bytes or text of tenants."""
    for path in (p for p in files("collector") if any(str(p).startswith(w) for w in WHERE)):
        for node in ast.walk(tree(ROOT / path)):
            if isinstance(node, ast.FunctionDef) and any(map(_is_input, node.args.args)):
                yield f"{path}:{node.name}"


def _is_input(argument: ast.arg) -> bool:
    kind = ast.unparse(argument.annotation) if argument.annotation else ""
    if "Callable" in kind:
        return False
    return "bytes" in kind or (kind in {"str", "str | None"} and argument.arg in TEXTS)


def called(target: Target, inputs: int = 300) -> set[str]:
    """``file:function`` of what a target calls on its corpus and on some mutations of it."""
    found: set[str] = set()

    def note(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and "/collector/" in frame.f_code.co_filename:
            path = Path(frame.f_code.co_filename).relative_to(ROOT)
            found.add(f"{path}:{frame.f_code.co_name}")

    source = random.Random(target.name)
    given = [*target.corpus, *(mutated(source, target.corpus) for _ in range(inputs))]
    sys.setprofile(note)
    try:
        for data in given:
            try:
                target.parse(data)
            except target.errors:
                continue
    finally:
        sys.setprofile(None)
    return found


@pytest.mark.slow
def test_every_parser_of_what_tenants_write_is_fuzzed() -> None:
    """A function that takes such bytes and that no target reaches needs a target in
    tests/fuzz/targets.py, or a reason here why it is no parser.
    """
    reached = set().union(*map(called, TARGETS))
    found = set(parsers())
    assert len(found) > 50
    assert sorted(found - reached - EXEMPT.keys()) == []
    assert sorted(EXEMPT.keys() - found) == [], "no such function: its reason is out of date"


@pytest.mark.slow
def test_a_million_inputs_are_withstood() -> None:
    """Only the errors that a parser states, within limits of memory and CPU time for each input."""
    began = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-m", "tests.fuzz.run", "--inputs", str(INPUTS)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=10 * PATIENCE_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    *_, last = done.stdout.splitlines()
    total, _, cpu_s, *_ = last.split()
    assert int(total) >= INPUTS * 0.999, done.stdout
    assert float(cpu_s) < MAX_CPU_S, done.stdout
    assert time.monotonic() - began < 10 * PATIENCE_S


def test_the_same_seed_gives_the_same_inputs() -> None:
    """So that a failure can be had again; another seed gives others, none larger than stated."""
    corpus = TARGETS[0].corpus
    first, again, other = (
        [mutated(source, corpus) for _ in range(200)]
        for source in (random.Random("a"), random.Random("a"), random.Random("b"))
    )
    assert first == again != other
    assert max(map(len, first)) <= MAX_BYTES


@pytest.mark.parametrize("what", ["error", "memory", "time"])
def test_an_input_that_breaks_a_parser_is_reported(
    what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the target, the seed and the number by which it is had again."""

    def parse(_: bytes) -> object:
        if what == "error":
            raise KeyError("x")
        if what == "memory":
            return bytes(MAX_GROWTH_BYTES)
        return sum(range(100_000))

    monkeypatch.setattr("tests.fuzz.run.MAX_CPU_S", 1e-5)
    with pytest.raises(FuzzError, match=r"bad, seed 7, input \d \(.*bytes\)"):
        fuzz(Target("bad", parse, (b"abc",), 1.0), 7, 3)


def test_each_target_has_its_share() -> None:
    """All inputs together are a million, and none has less than some thousand."""
    shares = counts(INPUTS)
    assert abs(sum(shares.values()) - INPUTS) < len(TARGETS)
    assert min(shares.values()) > 4000
    assert len(shares) == len(TARGETS)
