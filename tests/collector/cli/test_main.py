"""The command line: every command has help with an example, errors name what was typed, exit
codes mean what they say.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from collector.cli.main import COMMANDS, main, parser
from collector.cli.options import inputs
from collector.config.load import Inputs, load
from collector.config.settings import Config
from collector.version import VERSION
from pipeline import child
from pipeline.clock import SECOND_NS
from pipeline.finding import Finding, Incident
from pipeline.frame import Device
from pipeline.observation import Event
from tests.pipeline.store.stored import StoreMaker
from tests.sources import ROOT
from tests.wait import PATIENCE_S


def run(capsys: pytest.CaptureFixture[str], *argv: str) -> tuple[int, str, str]:
    """Exit code, standard output and standard error of a command."""
    try:
        code = main(argv)
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else 1
    captured = capsys.readouterr()
    return code, captured.out, captured.err


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_with_an_example(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """--help shows how the command is used and what its exit codes mean."""
    code, out, _ = run(capsys, command, "--help")
    assert code == 0
    assert re.search(rf"Examples?:\s+.*tocsin {command}", out, re.DOTALL)
    assert "Exit codes: " in out


def test_without_a_command_the_help_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    """On standard output, with every command, and that is no error."""
    code, out, err = run(capsys)
    assert (code, err) == (0, "")
    assert [name for name in COMMANDS if f"    {name}" not in out] == []


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (("qurey",), "tocsin: error: no command 'qurey'; did you mean query?"),
        (("zzz",), f"no command 'zzz'; there are {', '.join(COMMANDS)}"),
        (("query", "ecc", "--sinse", "1d"), "tocsin query: error: unrecognized arguments: --sinse"),
        (("query", "ecc", "--sinse", "1d"), "; did you mean --since?"),
        (("agent", "--web.listen=:1"), "; did you mean --web.listen-address?"),
        (("nccl", "status", "--path.prcfs", "/"), "; did you mean --path.procfs?"),
    ],
)
def test_a_mistyped_name_brings_the_one_that_was_meant(
    argv: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Commands and options; where nothing is alike, commands are listed."""
    code, out, err = run(capsys, *argv)
    assert (code, out) == (2, "")
    assert message in err


def test_an_unlike_option_brings_no_suggestion(capsys: pytest.CaptureFixture[str]) -> None:
    """A wrong guess would mislead."""
    assert "did you mean" not in run(capsys, "version", "--zzzzz")[2]


@pytest.mark.parametrize("command", COMMANDS)
def test_the_help_of_a_command_fits_a_screen(
    command: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """50 lines of 100 columns with its examples; settings have --help-settings."""
    monkeypatch.setenv("COLUMNS", "100")
    assert len(run(capsys, command, "--help")[1].splitlines()) <= 50


@pytest.mark.parametrize(
    ("argv", "shown", "hidden"),
    [
        (("agent",), "--web.listen-address", "--source.nvml.period"),
        (("agent",), "--simulate", "--kubernetes-gpu-id-type"),
        (("explain",), "--storage.path", "--storage.upload.url"),
        (("nccl", "status"), "--format", "--path.sysfs"),
    ],
)
def test_settings_are_behind_a_help_of_their_own(
    argv: tuple[str, ...], shown: str, hidden: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """--help has the usual ones only, --help-settings all of them."""
    assert shown in run(capsys, *argv, "--help")[1]
    assert hidden not in run(capsys, *argv, "--help")[1]
    code, out, _ = run(capsys, *argv, "--help-settings")
    assert (code, hidden in out) == (0, True)


def test_ctrl_c_is_one_line_and_130(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Wherever the command is; no traceback."""

    def interrupted(_args: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr("collector.cli.version.run", interrupted)
    assert run(capsys, "version") == (130, "", "tocsin: interrupted\n")


def test_version_is_the_distributions() -> None:
    """The version is spelt once and the build reads it there."""
    assert 'path = "collector/version.py"' in (ROOT / "pyproject.toml").read_text()
    assert re.fullmatch(r"\d+\.\d+\.\d+", VERSION)


@pytest.mark.parametrize("argv", [("version",), ("--version",), ("agent", "-v")])
def test_version(argv: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    """All spellings print the version and end well."""
    code, out, _ = run(capsys, *argv)
    assert (code, out.split()[:2]) == (0, ["tocsin", VERSION])


@pytest.mark.slow
@pytest.mark.parametrize("argv", ["version", "--version", "-v"])
def test_the_version_imports_no_other_command(argv: str) -> None:
    """It is asked on every node of a cluster."""
    ask = "import sys; from collector.cli import main; main(sys.argv[1:]); print(*sys.modules)"
    done = child.run([sys.executable, "-c", ask, argv], timeout_s=PATIENCE_S)
    version, _, modules = done.stdout.decode().partition("\n")
    assert VERSION in version
    assert {name for name in COMMANDS.values() if name in modules.split()} == {COMMANDS["version"]}


@pytest.mark.parametrize(
    "argv",
    [
        ("nonsense",),
        ("agent", "--nonsense"),
        ("agent", "--web.listen", ":1"),
        ("read", "--format", "xml"),
        ("agent", "stray"),
    ],
)
def test_a_wrong_command_line_ends_with_2(
    argv: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    """Unknown commands, options, abbreviations and stray words are refused with a message."""
    code, out, err = run(capsys, *argv)
    assert (code, out) == (2, "")
    assert "usage: tocsin" in err


def test_a_wrong_configuration_ends_with_2_and_names_everything(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each problem is one line on standard error."""
    file = tmp_path / "c.yaml"
    file.write_text("wep: {}\n")
    code, out, err = run(capsys, "check-config", str(file), "--log.level", "loud")
    assert (code, out) == (2, "")
    assert err.splitlines() == [
        f"tocsin: {file}:1: wep: unknown setting, did you mean web?",
        "tocsin: --log.level: expected one of debug, info, warning, error, got 'loud'",
    ]


@pytest.mark.slow  # it imports the sources
def test_check_config_reads_the_topology_as_the_agent_does(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What it accepts is what the agent starts with."""
    file = tmp_path / "racks.yaml"
    assert main(["check-config", "--topology.file", str(file)]) == 2
    assert "tocsin: topology: " in capsys.readouterr().err
    file.write_text("n1: {rack: R1}\n")
    assert main(["check-config", "--topology.file", str(file)]) == 0


def test_check_config_prints_what_is_in_force_and_whence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A value that was given says where."""
    monkeypatch.setenv("TOCSIN_LOG__FORMAT", "json")
    file = tmp_path / "c.yaml"
    file.write_text("sources:\n  nvml: {period: 2s}\n")
    code, out, _ = run(
        capsys,
        "check-config",
        str(file),
        "-a",
        ":9401",
        "--inject",
        "oom_kill",
        "--inject",
        "driver_unload",
        "--simulate",
        "hgx-h100",
    )
    assert code == 0
    assert "  listen_address: [':9401']  # -a\n" in out
    assert f"    period: 2s  # {file}:2: sources.nvml.period\n" in out
    assert "  format: json  # TOCSIN_LOG__FORMAT\n" in out
    assert "  inject: [oom_kill, driver_unload]  # --inject\n" in out
    assert "  telemetry_path: /metrics\n" in out


def test_what_check_config_prints_is_a_configuration(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Loading the printed file gives the same settings, also for text that
    looks like something else.
    """
    argv = (
        "--storage.path",
        "a: #b",
        "--topology.command",
        "no",
        "--source.infiniband.perfquery",
        "1e3",
        "--source.host.period",
        "1m30s",
        "--path.sysfs",
        "é'\"",
    )
    _, out, _ = run(capsys, "check-config", *argv)
    (tmp_path / "again.yaml").write_text(out)
    given = inputs(parser().parse_args(["check-config", *argv]))
    assert (
        load(Inputs(str(tmp_path / "again.yaml"))).config
        == load(Inputs(flags=given.flags, default_file=Path("/nonexistent"))).config
    )


def test_check_config_shows_the_defaults_as_a_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without anything given the printed file is the default configuration."""
    _, out, _ = run(capsys, "check-config")
    (tmp_path / "defaults.yaml").write_text(out)
    assert load(Inputs(str(tmp_path / "defaults.yaml"))).config == Config()


def test_notices_stand_beside_the_output(capsys: pytest.CaptureFixture[str]) -> None:
    """What has no effect is said on standard error, so the output stays a YAML file."""
    code, out, err = run(capsys, "check-config", "--enable-pprof")
    assert (code, "--enable-pprof is accepted" in err, "--enable-pprof" in out) == (0, True, False)


@pytest.mark.slow
def test_a_reader_that_has_seen_enough_is_no_failure_of_ours() -> None:
    """`tocsin check-config | head -1` ends without a traceback."""
    command = (
        f"'{sys.executable}' -c 'import sys; sys.path.insert(0, \"{ROOT}\"); from collector.cli "
        "import main; sys.exit(main())' agent --help | true"
    )
    ran = child.run(["sh", "-c", command], timeout_s=PATIENCE_S)
    assert ran.stderr == b""


@pytest.mark.slow
@pytest.mark.parametrize("command", ["explain latest", "replay --detectors xid"])
def test_a_reader_of_findings_that_has_seen_enough_is_no_failure_of_ours(
    command: str, tmp_path: Path
) -> None:
    """What does not fit into the buffer is refused by the pipe while the store is read."""
    store, gpu = StoreMaker(tmp_path), Device("n1", "gpu", "GPU-1")
    xid = Event(SECOND_NS, SECOND_NS, gpu, "xid", {"code": 79, "source": "kmsg"})
    found = Finding("xid", gpu, "xid/gpu", "onset", "page", SECOND_NS, SECOND_NS, "XID 79.")
    opened = Incident("1f" * 8, gpu, "xid/gpu", "page", "NONE", SECOND_NS, (found.id,), "XID 79.")
    store.add("n1", SECOND_NS, events=[xid], findings=[found], incidents=[opened])
    store.close()
    unbuffered = f"'{sys.executable}' -u -c 'import sys; sys.path.insert(0, \"{ROOT}\"); "
    run = "from collector.cli import main; sys.exit(main())'"
    options = f"--storage.path {tmp_path}"
    ran = child.run(
        ["sh", "-c", f"{unbuffered}{run} {command} {options} | true"], timeout_s=PATIENCE_S
    )
    assert b"Broken pipe" not in ran.stderr
