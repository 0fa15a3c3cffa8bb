"""Completion: the shells complete what the parser takes."""

from __future__ import annotations

import argparse
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from collector.cli.completion import SHELLS, script
from collector.cli.main import COMMANDS, parser
from collector.cli.parser import Parser
from pipeline import child
from tests.parts import need
from tests.wait import PATIENCE_S

pytestmark = pytest.mark.slow  # each makes the parser of all commands


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The scripts of all shells, as files, beside a folder and a file to complete."""
    made = tmp_path_factory.mktemp("completion")
    for shell in SHELLS:
        (made / shell).write_text(script(parser(), shell))
    (made / "store").mkdir()
    (made / "saved.prom").touch()
    return made


def shown(parsed: Parser) -> Iterator[str]:
    """Options that help or --help-settings show."""
    for action in parsed._actions:
        if action.help != argparse.SUPPRESS:
            yield from action.option_strings
    for below in parsed.parsers():
        yield from shown(below)


def ran(folder: Path, *argv: str) -> list[str]:
    """What a shell prints, line by line."""
    ended = child.run(argv, timeout_s=PATIENCE_S, cwd=str(folder))
    assert (ended.returncode, ended.stderr) == (0, b"")
    return sorted(line.strip() for line in ended.stdout.decode().splitlines())


def bash(folder: Path, *words: str) -> list[str]:
    """What bash offers for the last of the words."""
    typed = shlex.join(("tocsin", *words))
    return ran(
        folder,
        "bash",
        "--norc",
        "-c",
        f". ./bash; COMP_WORDS=({typed}); COMP_CWORD={len(words)}; compopt() {{ :; }}; "
        '_shtab_tocsin; printf "%s\\n" "${COMPREPLY[@]}"',
    )


def test_bash_completes_commands(folder: Path) -> None:
    """All of them, and those that begin as typed."""
    assert bash(folder, "") == sorted(COMMANDS)
    assert bash(folder, "ex") == ["explain", "export"]


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (("query", "--since", "1d", "--fo"), ["--format"]),
        (("query", "--format", ""), ["csv", "json", "parquet", "svg", "table"]),
        (("query", "xid"), ["xids"]),
        (("agent", "--log.l"), ["--log.level"]),
        (("agent", "--log.level", "d"), ["debug"]),
        (("maintenance", ""), ["off", "on"]),
        (("nccl", ""), ["explain", "status"]),
        (("nccl", "status", "--path.s"), ["--path.sysfs"]),
        (("diff", "sav"), ["saved.prom"]),
        (("read", "--storage.path", "s"), []),
        (("compact", "--storage.path", "s"), ["store"]),
        (("completion", ""), ["bash", "fish", "zsh"]),
    ],
)
def test_bash_completes_options_and_values(
    folder: Path, words: tuple[str, ...], offered: list[str]
) -> None:
    """Options, choices, canned questions, files and folders; none that the command has not."""
    assert [word for word in bash(folder, *words) if word] == offered


def test_fish_completes_commands_and_values(folder: Path) -> None:
    """As bash does."""
    need("fish", "fish")

    def fish(line: str) -> set[str]:
        lines = ran(folder, "fish", "--no-config", "-c", f"source ./fish; complete -C '{line}'")
        return {offer.split("\t")[0] for offer in lines}

    assert set(COMMANDS) <= fish("tocsin ")
    assert fish("tocsin query --format ") == {"csv", "json", "parquet", "svg", "table"}


def test_zsh_accepts_the_script(folder: Path) -> None:
    """It parses, and registers itself for tocsin."""
    need("zsh", "zsh")
    made = 'autoload -U compinit; compinit -D -u; eval "$(<./zsh)"; print $_comps[tocsin]'
    assert ran(folder, "zsh", "-f", "-c", made) == ["_shtab_tocsin"]


@pytest.mark.parametrize("shell", SHELLS)
def test_every_command_and_option_is_in_the_script(folder: Path, shell: str) -> None:
    """Also those of settings; none that help does not show."""
    text = (folder / shell).read_text()
    words = set(re.findall(r"[A-Za-z0-9][A-Za-z0-9._-]*", text))
    wanted = {*COMMANDS, *(option.lstrip("-") for option in shown(parser()))}
    assert wanted - words == set()
    assert {"owned", "no-web.enabled"} & words == set()
