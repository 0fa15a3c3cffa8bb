"""Our own source files as syntax trees: what the tests about architecture and
documentation walk over.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("pipeline", "detectors", "collector", "simulator", "evaluation", "gateway", "history")


@cache
def tree(path: Path) -> ast.Module:
    """The syntax tree of a file."""
    return ast.parse(path.read_text(encoding="utf-8"), str(path))


def files(*folders: str) -> list[Path]:
    """All Python files of the folders, in order of path; paths are relative to the repository."""
    return sorted(
        path.relative_to(ROOT) for folder in folders for path in (ROOT / folder).rglob("*.py")
    )


def imports(path: Path) -> Iterator[tuple[int, str]]:
    """Line and full dotted name of everything a file imports, inside functions too;
    ``from a import b`` gives ``a.b``.
    """
    for node in ast.walk(tree(ROOT / path)):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                package = list(path.parts[: len(path.parts) - node.level])
                base = ".".join([*package, base] if base else package)
            yield from ((node.lineno, f"{base}.{alias.name}") for alias in node.names)
        elif isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] in (
            "import_module",
            "__import__",
        ):
            yield from (
                (node.lineno, arg.value)
                for arg in node.args
                if isinstance(arg, ast.Constant) and isinstance(arg.value, str)
            )


def calls(path: Path) -> Iterator[tuple[int, str]]:
    """Line and dotted name of everything that is named or reached by attribute in a
    file: ``os.fork``, ``print``.
    """
    for node in ast.walk(tree(ROOT / path)):
        if isinstance(node, ast.Name):
            yield node.lineno, node.id
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            yield node.lineno, f"{node.value.id}.{node.attr}"
