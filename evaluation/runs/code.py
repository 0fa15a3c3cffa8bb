"""Which code a result depends on: what renders, judges and scores a run. Plans and reports change
no result.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterable, Iterator
from pathlib import Path

from pipeline.code_hash import files_hash

ROOT = Path(__file__).resolve().parents[2]
RUN = "evaluation.runs.run"
# Where a result's code and tables may be: other sources of the agent are imported beside that of
# the kernel log, and read nothing in a run.
PARTS = ("pipeline", "detectors", "simulator", "evaluation", "collector/sources/kmsg")
TABLES = (".toml", ".csv")
# Series of the agent about itself, and their help: no detector reads them.
WITHOUT_EFFECT = ("pipeline/catalog/agent.py",)
BLOCKS = ("body", "handlers", "orelse", "finalbody", "cases")  # statements within a statement


def code_hash(root: Path = ROOT) -> str:
    """Of all files that a result depends on, by their names."""
    return files_hash(root, files(root))


def files(root: Path = ROOT) -> set[Path]:
    """Modules of PARTS that a run imports, directly or not, and all tables in their packages."""
    parts = [root / part for part in PARTS]
    modules = {one for one in _imported(root, RUN) if any(map(one.is_relative_to, parts))}
    tables = (path for part in parts for path in part.rglob("*") if path.suffix in TABLES)
    return {path for path in tables if _package(path) in modules} | (
        modules - {root / path for path in WITHOUT_EFFECT}
    )


def _package(path: Path) -> Path | None:
    """The module of the package that a table lies in."""
    modules = (folder / "__init__.py" for folder in path.parents)
    return next((module for module in modules if module.is_file()), None)


def _imported(root: Path, module: str) -> set[Path]:
    found: set[Path] = set()
    waiting, known = [module], {module}
    while waiting:
        names = waiting.pop().split(".")
        for count in range(1, len(names) + 1):  # packages are imported before what is in them
            path = _path(root, names[:count])
            if path is not None and path not in found:
                found.add(path)
                imports = _of_source(path.read_bytes()) - known
                known |= imports
                waiting += imports
    return found


def _path(root: Path, names: list[str]) -> Path | None:
    folder = root.joinpath(*names)
    for path in (folder / "__init__.py", folder.with_suffix(".py")):
        if path.is_file():
            return path
    return None


@functools.cache  # of each file once in a process, however often it is asked
def _of_source(source: bytes) -> frozenset[str]:
    return frozenset(_imports(ast.parse(source).body))


def _imports(statements: Iterable[ast.AST]) -> Iterator[str]:
    """Modules, and names that may be modules; expressions, most of a syntax tree, import none."""
    for node in statements:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        for block in BLOCKS:
            yield from _imports(getattr(node, block, ()))
