"""Every class of kernel lines in every spelling of a log, and lines of which none is an event."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from collector.sources.kmsg.joiner import Joiner
from collector.sources.kmsg.records import Record
from pipeline.observation import Event
from tests.collector.sources.kmsg.corpus import CORPUS, HARMLESS, Case
from tests.collector.sources.kmsg.logs import Node
from tests.collector.sources.kmsg.spellings import NOT_AT_ALL, SPELLINGS, unix_ns

FIRST_USEC, BETWEEN_USEC = 280_285_060, 1_000_004


def test_the_corpus_is_large_enough() -> None:
    """At least 60 classes in all spellings, and at least 200 harmless lines."""
    assert len({case.name for case in CORPUS}) == len(CORPUS) >= 60
    assert len(set(HARMLESS)) == len(HARMLESS) >= 200
    assert len(SPELLINGS) >= 40


def parsed(case: Case) -> list[tuple[str, str, dict[str, object]]]:
    """What comes out for the records of a class."""
    joiner = Joiner()
    found = [joiner.feed(Record(text, seq, seq)) for seq, text in enumerate(case.texts)]
    late = [line for _, line in joiner.overdue(final=True)]
    return [(one.kind, one.pci, dict(one.facts)) for one in [*found, *late] if one]


@pytest.mark.parametrize("case", CORPUS, ids=lambda case: case.name)
def test_a_class_gives_its_events(case: Case) -> None:
    """Kind, PCI address and attributes; nothing more."""
    found = parsed(case)
    assert [kind for kind, _, _ in found] == [event["kind"] for event in case.events]
    for (_, pci, facts), expected in zip(found, case.events, strict=True):
        assert pci == expected.get("pci", "")
        wanted = {name: value for name, value in expected.items() if name not in ("kind", "pci")}
        assert {name: facts.get(name) for name in wanted} == wanted


def test_no_harmless_line_is_an_event() -> None:
    """Also one after the other, as a log has them."""
    joiner = Joiner()
    found = [(text, joiner.feed(Record(text))) for text in HARMLESS]
    assert [text for text, one in found if one is not None] == []
    assert joiner.overdue(final=True) == []


def saved_events(node: Node, path: Path, text: str) -> list[Event]:
    """Events of a saved log, read once as the command does."""
    path.write_text(text, encoding="utf-8", errors="surrogateescape")
    os.utime(path, ns=(unix_ns(FIRST_USEC), unix_ns(FIRST_USEC)))
    source = node.source(path=path, saved=True, real=False)
    reading = source.read()
    assert reading.unread == ()
    return list(reading.events)


@pytest.mark.slow
@pytest.mark.parametrize("name", SPELLINGS)
def test_every_class_in_a_spelling(name: str, node: Node, tmp_path: Path) -> None:
    """Each class by itself, with a harmless line before and behind, gives its events and no
    others, with its time.
    """
    spell, exactly = SPELLINGS[name]
    path = tmp_path / "log"
    node.clock.advance((unix_ns(FIRST_USEC) - node.clock.time_ns()) / 1e9 + 3600)
    for case in CORPUS:
        texts = [HARMLESS[3], *case.texts, HARMLESS[-1]]
        records = [(text, FIRST_USEC + n * BETWEEN_USEC) for n, text in enumerate(texts)]
        found = saved_events(node, path, spell(records))
        assert case.chosen(found) == list(case.events), case.name
        assert len(found) == len(case.events), case.name
        for event in found:
            at = min(abs(event.time_ns - unix_ns(usec)) for _, usec in records)
            if exactly != NOT_AT_ALL:
                assert at < max(exactly, 1) * 1000 + len(texts) * BETWEEN_USEC * 1000, case.name


@pytest.mark.slow
@pytest.mark.parametrize("name", SPELLINGS)
def test_no_harmless_line_in_any_spelling(name: str, node: Node, tmp_path: Path) -> None:
    """All of them in one file: understood, and no event."""
    records = [(text, FIRST_USEC + n * BETWEEN_USEC) for n, text in enumerate(HARMLESS)]
    assert saved_events(node, tmp_path / "log", SPELLINGS[name][0](records)) == []
