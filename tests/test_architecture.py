"""The shape of the house, held by machine: import direction, homes of
packages, what may stand where.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

from pipeline import child
from tests.sources import PACKAGES, ROOT, calls, files, imports, tree
from tests.wait import PATIENCE_S

# A package may import those before it.
ORDER = PACKAGES

# Where a third-party package, or a door to the operating system, may be imported.
# A folder ends in a slash.
HOMES: dict[str, tuple[str, ...]] = {
    "numpy": tuple(f"{package}/" for package in PACKAGES),
    "pynvml": ("collector/sources/nvml/",),
    "aiohttp": ("collector/web/", "gateway/api/", "gateway/page/", "gateway/site.py"),
    "prometheus_client": ("pipeline/exposition/",),
    "isal": ("pipeline/exposition/", "collector/web/"),
    "orjson": (
        "pipeline/bus/batch.py",
        "pipeline/bus/stack.py",
        "pipeline/exposition/",
        "pipeline/plain.py",
        "pipeline/sound_json.py",
        "collector/agent/findings_log.py",
        "pipeline/store/",
        "collector/node/state.py",
        "collector/web/",
        "gateway/api/",
        "history/",
    ),
    "h2": ("collector/sources/jobs/kubelet/grpc.py",),
    "msgspec": ("collector/config/", "collector/sources/nccl/", "collector/sources/tenants/"),
    "bcrypt": ("collector/web/auth.py",),
    "yaml": ("collector/config/", "collector/node/topology.py", "history/meaning/labels.py"),
    "pyarrow": ("pipeline/store/", "pipeline/replay.py"),
    "polars": ("pipeline/store/",),
    "rich": ("collector/cli/terminal.py", "collector/cli/progress.py"),
    "shtab": ("collector/cli/completion.py",),
    "ray": ("pipeline/pieces/on_ray.py",),
    "obstore": ("pipeline/store/remote/objects.py",),
    "cramjam": ("history/site/remote_read.py",),
    "google": (
        *("history/site/messages.py", "history/site/remote_read.py"),
        "history/site/streamed.py",
    ),
    "nats": ("collector/bus/", "gateway/"),
    "nacl": ("collector/bus/credentials.py",),
    "river": ("evaluation/baselines/",),
    "sklearn": ("evaluation/baselines/", "history/learning/"),
    "torch": ("collector/preflight/bench.py",),  # stands alone, in a Python of the user's
    "subprocess": ("pipeline/child.py",),
    "multiprocessing": (),
    "pty": (),
}

STARTS_A_PROCESS = ("fork", "forkpty", "posix_spawn", "posix_spawnp", "system", "popen")
SUBPROCESS_DOORS = {
    *(f"os.{name}" for name in STARTS_A_PROCESS),
    *(
        f"os.{kind}{end}"
        for kind in ("exec", "spawn")
        for end in ("l", "le", "lp", "lpe", "v", "ve", "vp", "vpe")
    ),
    "asyncio.create_subprocess_exec",
    "asyncio.create_subprocess_shell",
    "concurrent.futures.ProcessPoolExecutor",
}

# Commands write to standard output; everything else logs.
COMMAND_FILES = (
    "collector/cli/",
    "simulator/command.py",
    "evaluation/command.py",
    "evaluation/score.py",
    "evaluation/steps.py",
    "history/command.py",
    "history/backtest_command.py",
    "history/report_command.py",
    "history/labels/label_command.py",
    "history/labels/precision_command.py",
    "history/learning/learn_command.py",
    "history/learning/nightly_command.py",
)

# Only these may catch everything, each for its reason.
GUARDS: dict[str, str] = {
    "pipeline/guard.py": "the guard around every stage: a plug-in just raises, the others go on",
}

HEAVY = (
    *("pynvml", "pyarrow", "polars", "sklearn", "river", "scipy", "pandas", "h2", "rich"),
    *("aiohttp.client", "http.server", "numpy.ma"),
)


def ours() -> list[Path]:
    """All files of our packages."""
    return files(*PACKAGES)


def within(path: Path, homes: tuple[str, ...]) -> bool:
    """True where a path is one of the files, or below one of the folders."""
    return any(
        str(path) == home or (home.endswith("/") and str(path).startswith(home)) for home in homes
    )


def catches_everything(path: Path) -> Iterator[int]:
    """Lines of a file that catch Exception, BaseException or anything at all, and do not raise
    it again after tidying up.
    """
    for node in ast.walk(tree(ROOT / path)):
        if isinstance(node, ast.ExceptHandler) and not (
            isinstance(node.body[-1], ast.Raise) and node.body[-1].exc is None
        ):
            names = (
                [n.id for n in ast.walk(node.type) if isinstance(n, ast.Name)]
                if node.type
                else ["BaseException"]
            )
            if {"Exception", "BaseException"} & set(names):
                yield node.lineno


@pytest.mark.slow
def test_imports_point_one_way() -> None:
    """A package imports only those before it in the order; imports inside functions count too."""
    wrong = [
        f"{path}:{line} imports {name}"
        for path in ours()
        for line, name in imports(path)
        if name.split(".")[0] in ORDER
        and ORDER.index(name.split(".")[0]) > ORDER.index(path.parts[0])
    ]
    assert not wrong


def module_of(name: str) -> Path | None:
    """The file of ours that a dotted name is in; None for other people's.

    A package's own name is its __init__.py.
    """
    parts = name.split(".")
    for end in (len(parts), len(parts) - 1):
        path = Path(*parts[:end]) if end else Path()
        for file in (path.with_suffix(".py"), path / "__init__.py") if end else ():
            if (ROOT / file).is_file():
                return file
    return None


def arrows() -> Iterator[tuple[str, str, str]]:
    """Folder, then two of its entries of which the first imports the second: files and folders,
    imports in functions too.
    """
    for path in ours():
        for _, name in imports(path):
            target = module_of(name)
            if target is None or target == path:
                continue
            a, b = path.parts, target.parts
            depth = next(i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y)
            yield "/".join(a[:depth]), a[depth], b[depth]


@pytest.mark.slow
def test_no_two_entries_of_a_folder_import_each_other() -> None:
    """In every folder the imports between its files and folders run one way: no pair and no ring,
    imports in functions included.
    """
    graphs: dict[str, dict[str, set[str]]] = {}
    for folder, importer, imported in arrows():
        graphs.setdefault(folder, {}).setdefault(importer, set()).add(imported)
    for folder, graph in graphs.items():
        try:
            TopologicalSorter(graph).prepare()
        except CycleError as error:
            pytest.fail(f"in {folder or 'the root'}: {' -> '.join(error.args[1])}")


# Code that is chosen by name at run time, so that its package is imported only when it is asked for
# (pipeline/plugin.py, child processes, the table of commands): the only ways from a package to one
# that comes after it.
NAMED_UPWARDS = {
    ("collector/agent/environment.py", "simulator.nvml_client:open_client"),
    ("collector/config/checks.py", "simulator.check:problems"),
    ("collector/cli/main.py", "simulator.command"),
    ("collector/cli/main.py", "evaluation.command"),
    ("collector/cli/main.py", "gateway.command"),
    ("collector/cli/main.py", "history.command"),
    ("collector/cli/main.py", "history.backtest_command"),
    ("collector/cli/main.py", "history.report_command"),
    ("collector/cli/main.py", "history.labels.label_command"),
    ("collector/cli/main.py", "history.labels.precision_command"),
    ("collector/cli/main.py", "history.learning.learn_command"),
    ("collector/cli/main.py", "history.learning.nightly_command"),
}


@pytest.mark.slow
def test_packages_that_come_later_are_reached_by_name_in_these_places_only() -> None:
    """A string that names a module of a later package is an import too, and each is listed."""
    found = set()
    for path in ours():
        later = ORDER[ORDER.index(path.parts[0]) + 1 :]
        for node in ast.walk(tree(ROOT / path)):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                name = node.value.partition(":")[0]
                if name.split(".")[0] in later and "." in name and module_of(name):
                    found.add((str(path), node.value))
    assert found == NAMED_UPWARDS


@pytest.mark.slow
def test_shipped_code_imports_no_tests_or_scripts() -> None:
    """Tests, benchmarks, tools and docs are not installed, so nothing that is may import them."""
    outside = {"tests", "benchmarks", "tools", "docs", "rules", "dashboards"}
    assert not [
        f"{path}:{line} imports {name}"
        for path in ours()
        for line, name in imports(path)
        if name.split(".")[0] in outside
    ]


@pytest.mark.slow
def test_third_party_packages_have_one_home() -> None:
    """A package is imported only where the table says; one that is not in the
    table is not imported at all.
    """
    free = sys.stdlib_module_names - HOMES.keys() | set(PACKAGES) | {"__future__"}
    wrong = [
        f"{path}:{line} imports {name}"
        for path in ours()
        for line, name in imports(path)
        if (top := name.split(".")[0]) not in free and not within(path, HOMES.get(top, ()))
    ]
    assert not wrong


@pytest.mark.slow
def test_processes_start_in_one_place() -> None:
    """Only pipeline/child.py starts processes, whatever the door."""
    found = {
        str(path)
        for path in ours()
        for _, name in [*calls(path), *imports(path)]
        if name in SUBPROCESS_DOORS
    }
    assert found <= {"pipeline/child.py"}


@pytest.mark.slow
def test_only_the_command_line_prints() -> None:
    """What the agent has to say goes to the log; standard output belongs to the commands."""
    assert not [
        f"{path}:{line}"
        for path in ours()
        for line, name in calls(path)
        if name == "print" and not within(path, COMMAND_FILES)
    ]


@pytest.mark.slow
def test_only_guards_catch_everything() -> None:
    """Elsewhere an except names what it expects: an error in our own code must reach a
    guard, where it is counted.
    """
    wrong = [
        f"{path}:{line}"
        for path in ours()
        for line in catches_everything(path)
        if str(path) not in GUARDS
    ]
    assert not wrong


def test_the_list_of_guards_is_not_longer_than_needed() -> None:
    """A file that no longer catches everything is taken off the list."""
    assert [path for path in GUARDS if not list(catches_everything(Path(path)))] == []


@pytest.mark.slow
def test_no_other_distribution_claims_our_names() -> None:
    """The import names are generic: whoever else installs one of them would be imported in
    our place, or we in theirs.
    """
    claimed = packages_distributions()
    assert {
        name: claimed.get(name, []) for name in PACKAGES if set(claimed.get(name, [])) - {"tocsin"}
    } == {}


@pytest.mark.slow
@pytest.mark.parametrize(
    "module", ["collector.cli.agent", "collector.agent.agent", "collector.agent.sources"]
)
def test_the_steady_agent_imports_nothing_heavy(module: str) -> None:
    """The driver library lives in the driver child, columnar stores and fits in short-lived
    children: the agent stays small.
    """
    code = f"import sys; sys.path.insert(0, {str(ROOT)!r}); import {module}; print(*sys.modules)"
    ran = child.run([sys.executable, "-I", "-c", code], timeout_s=PATIENCE_S)
    assert ran.returncode == 0, ran.stderr.decode()
    assert set(HEAVY) & set(ran.stdout.decode().split()) == set()


@pytest.mark.slow
def test_tests_do_not_sleep() -> None:
    """Time in tests is a fake clock or an event; waiting for a real process goes through
    tests/wait.py, which has a deadline.
    """
    sleepers = {"time.sleep", "sleep"}
    wrong = [
        f"{path}:{line}"
        for path in files("tests")
        for line, name in calls(path)
        if name in sleepers and str(path) != "tests/wait.py"
    ]
    assert not wrong


@pytest.mark.slow
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
    """Without __init__.py equal file names collide, and tests/collector would
    shadow the real package.
    """
    folders = {path.parent for path in files("tests")} - {Path("tests/data"), Path("tests/golden")}
    assert [
        str(folder) for folder in sorted(folders) if not (ROOT / folder / "__init__.py").is_file()
    ] == []


@pytest.mark.slow
def test_nothing_that_is_ignored_is_committed() -> None:
    """No build, no fetched part and no link to one: a checkout would replace what lies there."""
    if not (ROOT / ".git").exists():
        pytest.skip("not a git checkout")
    git = ["git", "-C", str(ROOT), "-c", "safe.directory=*", "ls-files"]
    listed = child.run([*git, "--cached", "--ignored", "--exclude-standard"], timeout_s=PATIENCE_S)
    assert (listed.returncode, listed.stdout.decode()) == (0, "")
