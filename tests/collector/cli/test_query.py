"""`tocsin query`: questions in SQL and by name, every form of answer, mistakes
told with what there is.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from collector.cli.main import main
from pipeline.store.keep.compact import compact
from pipeline.store.query.questions import QUESTIONS
from tests.collector.cli.screen import Screen, screen
from tests.pipeline.store.days import DAY, later, two_days

pytestmark = pytest.mark.slow  # each makes a simulated node or a store

__all__ = ["screen"]

Query = Callable[..., tuple[int, str, str]]
SPAN = ("--since", "2027-01-15", "--until", "2027-01-17")


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with two days in it."""
    folder = tmp_path_factory.mktemp("store")
    two_days(folder)
    compact(later(folder))
    return folder


@pytest.fixture
def query(capsys: pytest.CaptureFixture[str], root: Path) -> Query:
    """The command over that store: exit code, standard output, standard error."""

    def run(*argv: str) -> tuple[int, str, str]:
        code = main(["query", "--storage.path", str(root), *argv])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run


def test_sql_answers_as_json_lines(query: Query) -> None:
    """What the issue asks for: one object per line."""
    code, out, err = query(
        "--format",
        "json",
        "SELECT device, count(*) AS n FROM ib_port GROUP BY device ORDER BY device",
    )
    assert (code, err) == (0, "")
    assert [json.loads(line) for line in out.splitlines()] == [
        {"device": f"ib_port-{i}", "n": 60} for i in range(3)
    ]


@pytest.mark.parametrize("form", ["csv", "json", "table"])
def test_stored_text_writes_nothing_on_the_terminal(
    form: str, query: Query, screen: Screen, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pipe gets the values as they are; what JSON leaves as it is, terminals may obey too."""
    asked = ("SELECT DISTINCT '\x1b]52;c;cm0\x07\x9b2J' AS a FROM ib_port",)
    _, piped, _ = query("--format", form, *asked)
    assert ("\x9b" in piped) == (form != "table")
    monkeypatch.setattr("sys.stdout", screen)
    assert query("--format", form, *asked)[0] == 0
    assert "52;c;cm0" in screen.getvalue()
    assert not set("\x9b\x07") & set(screen.getvalue())
    assert "\x1b]" not in screen.getvalue()


def test_sql_takes_a_window(query: Query) -> None:
    """--since and --until hold for all its tables."""
    code, out, _ = query(
        "SELECT count(*) AS n FROM reads",
        "--since",
        "2027-01-15T07:00",
        "--until",
        "2027-01-15T08:00",
        "--format",
        "csv",
    )
    assert (code, out) == (0, "n\n10\n")


@pytest.mark.parametrize("name", sorted(QUESTIONS))
@pytest.mark.parametrize("form", ["table", "csv", "json", "svg"])
def test_every_question_answers_in_every_form(query: Query, name: str, form: str) -> None:
    """Exit code 0, something on standard output, nothing on standard error."""
    words = (name, "ib_port-1") if name == "device" else (name,)
    code, out, err = query(*words, *SPAN, "--format", form)
    assert (code, err) == (0, "")
    assert out or (
        form == "json"
        and name in ("ecc", "throttle", "power", "temperature", "gaps", "nodes", "jobs")
    )


@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_an_output_that_cannot_be_written_is_named(query: Query, form: str, tmp_path: Path) -> None:
    """One line and exit code 1, as other commands have it."""
    file = tmp_path / "none" / "answer"
    code, out, err = query("ecc", *SPAN, "--format", form, "-o", str(file))
    assert (code, out) == (1, "")
    assert err.startswith(f"tocsin: -o {file}: No such file or directory")
    assert err.count("\n") == 1


def test_parquet_and_plots_go_into_files(query: Query, tmp_path: Path) -> None:
    """-o writes, and standard output stays empty."""
    for name in ("answer.parquet", "answer.svg"):
        assert query(
            "links", *SPAN, "--format", name.partition(".")[2], "-o", str(tmp_path / name)
        ) == (0, "", "")
    assert len(pl.read_parquet(tmp_path / "answer.parquet")) == 3
    assert (tmp_path / "answer.svg").read_text().startswith("<svg")


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["ecccc"], "there are ecc, links"),
        (["device"], "tocsin query device ID"),
        (["SELECT", "1"], "in quotes"),
        (["SELECT x FROM gpu"], "SQL:"),
        (["SELECT 1 FROM gpu", "--format", "svg"], "draws canned questions"),
        (["SELECT 1 FROM gpu", "--device", "x"], "WHERE device"),
        (["SELECT 1 FROM gpu", "--format", "parquet"], "-o FILE"),
        (["gaps", "--device", "ib_port-1"], "has no effect"),
        (["ecc", "--since", "yesterday"], "--since"),
        (["ecc", "--since", "1h", "--until", "2h"], "does not lie before"),
        (["links", *SPAN, "--device", "ib_port-9"], "there is ib_port-0, ib_port-1"),
    ],
)
def test_mistakes_are_told(query: Query, argv: list[str], words: str) -> None:
    """Exit code 2, one line that says what to write instead."""
    code, out, err = query(*argv)
    assert (code, out) == (2, "")
    assert words in err
    assert err.count("\n") == 1


def test_a_store_that_is_not_there_is_told(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """The key of the setting and the folder."""
    assert main(["query", "ecc", "--storage.path", str(tmp_path / "nowhere")]) == 2
    assert "storage.path" in capsys.readouterr().err
    assert main(["query", "ecc", "--storage.path", "ftp://x/y"]) == 2
    assert "storage.path" in capsys.readouterr().err


def test_a_relative_folder_is_meant_from_where_one_stands(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, root: Path
) -> None:
    """As people type it; a file or variable, which hold wherever they are
    read, names the whole path.
    """
    monkeypatch.chdir(root.parent)
    asked = ["query", "SELECT count(*) AS n FROM reads WHERE false", "--format", "csv"]
    assert main([*asked, "--storage.path", root.name]) == 0
    assert capsys.readouterr().out == "n\n0\n"
    monkeypatch.setenv("TOCSIN_STORAGE__PATH", root.name)
    assert main(asked) == 2
    assert (
        f"TOCSIN_STORAGE__PATH: '{root.name}': a directory is given by its absolute path"
        in capsys.readouterr().err
    )


def test_damaged_files_are_named_beside_the_answer(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """The rest answers on standard output, the file and the reason stand on standard error."""
    two_days(tmp_path, hours=(1, 2))
    victim = next((tmp_path / "reads" / DAY).glob("hour=01/*.parquet"))
    victim.write_bytes(b"nonsense")
    assert (
        main(
            [
                "query",
                "--storage.path",
                str(tmp_path),
                "--format",
                "csv",
                "SELECT count(*) AS n FROM reads",
            ]
        )
        == 0
    )
    captured = capsys.readouterr()
    assert captured.out.splitlines()[0] == "n"
    assert captured.err.startswith(f"tocsin: left out: {victim}")
