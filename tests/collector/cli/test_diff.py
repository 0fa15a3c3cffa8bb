"""``tocsin diff`` compares expositions and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from collector.cli.main import main

PAGE = '# TYPE DCGM_FI_DEV_GPU_TEMP gauge\nDCGM_FI_DEV_GPU_TEMP{gpu="0"} 41\n'


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("<!doctype html>\n<p>up 1\n", "an HTML page"),
        ('{"status": "ok"}', "JSON"),
        ("", "an empty page"),
        ("Connection refused by proxy\n", "text that begins with 'Connection refused"),
    ],
)
def test_a_page_that_is_no_exposition_is_refused_by_what_it_is(
    text: str, what: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """On either side, instead of "nothing is missing"."""
    metrics, other = tmp_path / "metrics", tmp_path / "other"
    metrics.write_text(PAGE)
    other.write_text(text)
    for pair in ((metrics, other), (other, metrics)):
        assert main(["diff", *map(str, pair)]) == 2
        captured = capsys.readouterr()
        assert captured.out == ""
        assert captured.err.startswith(f"tocsin: {other}: {what}")


def test_a_label_writes_nothing_on_the_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A label may be the word of a tenant."""
    metrics, other = tmp_path / "metrics", tmp_path / "other"
    metrics.write_text('gpu_temp{gpu="a\x1b]52;c;cm0\x07\x9b2J"} 1\n')
    other.write_text('gpu_temp{gpu="b"} 1\n')
    for pair in ((metrics, other), (other, metrics)):
        main(["diff", *map(str, pair)])
    captured = capsys.readouterr()
    assert "52;c;cm0" in captured.out
    assert all(line.isprintable() for line in (captured.out + captured.err).split("\n"))


def test_a_bad_line_of_an_old_exporter_costs_only_itself(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """dcgm-exporter up to 4.8.2 does not escape label values; so does a page without series."""
    old, bare = tmp_path / "old", tmp_path / "bare"
    old.write_text(PAGE + 'DCGM_FI_DEV_NAME{model="a "quoted" name"} 1\n')
    bare.write_text("# HELP up Nothing yet.\n")
    assert main(["diff", str(bare), str(old)]) == 0
    assert "1 lines cannot be read" in capsys.readouterr().err
