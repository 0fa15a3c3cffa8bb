"""The shape of the house, held by machine: import direction, homes of packages, what may stand where."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

from pipeline import child
from tests.sources import PACKAGES, ROOT, calls, files, imports, tree

# A package may import those before it.
ORDER = ("pipeline", "detectors", "collector")

# Where a third-party package, or a door to the operating system, may be imported. A folder ends in a slash.
HOMES: dict[str, tuple[str, ...]] = {
    "numpy": ("pipeline/", "detectors/", "collector/"),
    "pynvml": ("collector/sources/nvml/",),
    "aiohttp": ("collector/web/",),
    "prometheus_client": ("pipeline/exposition/",),
    "isal": ("pipeline/exposition/", "collector/web/"),
    "orjson": ("pipeline/exposition/", "collector/findings_log.py", "pipeline/store/", "collector/state.py", "collector/web/"),
    "h2": ("collector/jobs/kubelet/grpc.py",),
    "msgspec": ("collector/config/", "collector/sources/nccl/", "collector/web/web_config.py"),
    "bcrypt": ("collector/web/auth.py",),
    "yaml": ("collector/config/", "collector/topology.py", "collector/web/web_config.py"),
    "pyarrow": ("pipeline/store/", "pipeline/replay.py"),
    "polars": ("pipeline/store/",),
    "obstore": ("pipeline/store/objects.py",),
    "river": ("detectors/baselines/",),
    "sklearn": ("detectors/baselines/",),
    "subprocess": ("pipeline/child.py",),
    "multiprocessing": (),
    "pty": (),
}

STARTS_A_PROCESS = ("fork", "forkpty", "posix_spawn", "posix_spawnp", "system", "popen")
SUBPROCESS_DOORS = {
    *(f"os.{name}" for name in STARTS_A_PROCESS),
    *(f"os.{kind}{end}" for kind in ("exec", "spawn") for end in ("l", "le", "lp", "lpe", "v", "ve", "vp", "vpe")),
    "asyncio.create_subprocess_exec",
    "asyncio.create_subprocess_shell",
    "concurrent.futures.ProcessPoolExecutor",
}

# Only these may catch everything, each for its reason.
GUARDS: dict[str, str] = {
    "pipeline/guard.py": "the guard around every stage: a plug-in just raises, the others go on",
}

HEAVY = ("pynvml", "pyarrow", "polars", "sklearn", "river", "scipy", "pandas", "h2")


def ours() -> list[Path]:
    """All files of the three packages."""
    return files(*PACKAGES)


def within(path: Path, homes: tuple[str, ...]) -> bool:
    """True where a path is one of the files, or below one of the folders."""
    return any(str(path) == home or (home.endswith("/") and str(path).startswith(home)) for home in homes)


def catches_everything(path: Path) -> Iterator[int]:
    """Lines of a file that catch Exception, BaseException or anything at all, and do not raise it again after tidying up."""
    for node in ast.walk(tree(ROOT / path)):
        if isinstance(node, ast.ExceptHandler) and not (isinstance(node.body[-1], ast.Raise) and node.body[-1].exc is None):
            names = [n.id for n in ast.walk(node.type) if isinstance(n, ast.Name)] if node.type else ["BaseException"]
            if {"Exception", "BaseException"} & set(names):
                yield node.lineno


def test_imports_point_one_way() -> None:
    """The package pipeline imports nothing of ours, detectors only pipeline, collector both; inside functions too."""
    wrong = [
        f"{path}:{line} imports {name}"
        for path in ours()
        for line, name in imports(path)
        if name.split(".")[0] in ORDER and ORDER.index(name.split(".")[0]) > ORDER.index(path.parts[0])
    ]
    assert not wrong


def test_shipped_code_imports_no_tests_or_scripts() -> None:
    """Tests, benchmarks, tools and docs are not installed, so nothing that is may import them."""
    outside = {"tests", "benchmarks", "tools", "docs", "rules", "dashboards"}
    assert not [
        f"{path}:{line} imports {name}" for path in ours() for line, name in imports(path) if name.split(".")[0] in outside
    ]


def test_third_party_packages_have_one_home() -> None:
    """A package is imported only where the table says; one that is not in the table is not imported at all."""
    free = sys.stdlib_module_names - HOMES.keys() | set(PACKAGES) | {"__future__"}
    wrong = [
        f"{path}:{line} imports {name}"
        for path in ours()
        for line, name in imports(path)
        if (top := name.split(".")[0]) not in free and not within(path, HOMES.get(top, ()))
    ]
    assert not wrong


def test_processes_start_in_one_place() -> None:
    """Only pipeline/child.py starts processes, whatever the door."""
    found = {str(path) for path in ours() for _, name in [*calls(path), *imports(path)] if name in SUBPROCESS_DOORS}
    assert found <= {"pipeline/child.py"}


def test_only_the_command_line_prints() -> None:
    """What the agent has to say goes to the log; standard output belongs to the commands."""
    assert not [
        f"{path}:{line}"
        for path in ours()
        for line, name in calls(path)
        if name == "print" and not within(path, ("collector/cli/",))
    ]


def test_only_guards_catch_everything() -> None:
    """Elsewhere an except names what it expects: an error in our own code must reach a guard, where it is counted."""
    wrong = [f"{path}:{line}" for path in ours() for line in catches_everything(path) if str(path) not in GUARDS]
    assert not wrong


def test_the_list_of_guards_is_not_longer_than_needed() -> None:
    """A file that no longer catches everything is taken off the list."""
    assert [path for path in GUARDS if not list(catches_everything(Path(path)))] == []


def test_no_other_distribution_claims_our_names() -> None:
    """The import names are generic: whoever else installs one of them would be imported in our place, or we in theirs."""
    claimed = packages_distributions()
    assert {name: claimed.get(name, []) for name in PACKAGES if set(claimed.get(name, [])) - {"tocsin"}} == {}


@pytest.mark.parametrize("module", ["collector.cli.agent", "collector.agent", "collector.assembly"])
def test_the_steady_agent_imports_nothing_heavy(module: str) -> None:
    """The driver library lives in the driver child, columnar stores and fits in short-lived children: the agent stays small."""
    code = f"import sys; sys.path.insert(0, {str(ROOT)!r}); import {module}; print(*sys.modules)"
    ran = child.run([sys.executable, "-I", "-c", code], timeout_s=60)
    assert ran.returncode == 0, ran.stderr.decode()
    assert set(HEAVY) & set(ran.stdout.decode().split()) == set()


def test_tests_do_not_sleep() -> None:
    """Time in tests is a fake clock or an event; waiting for a real process goes through tests/wait.py, which has a deadline."""
    sleepers = {"time.sleep", "sleep"}
    wrong = [
        f"{path}:{line}"
        for path in files("tests")
        for line, name in calls(path)
        if name in sleepers and str(path) != "tests/wait.py"
    ]
    assert not wrong


def test_every_test_states_its_property() -> None:
    """Each test has a docstring: one sentence that says what is wanted."""
    wrong = [
        f"{path}:{node.lineno} {node.name}"
        for path in files("tests")
        for node in ast.walk(tree(ROOT / path))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.name.startswith("test_")
        and not ast.get_docstring(node)
    ]
    assert not wrong


def test_every_folder_of_tests_is_a_package() -> None:
    """Without __init__.py equal file names collide, and tests/collector would shadow the real package."""
    folders = {path.parent for path in files("tests")} - {Path("tests/data"), Path("tests/golden")}
    assert [str(folder) for folder in sorted(folders) if not (ROOT / folder / "__init__.py").is_file()] == []
