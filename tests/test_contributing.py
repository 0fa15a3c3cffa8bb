"""The recipes of CONTRIBUTING.md on a copy of the tree: each step is needed, all are enough."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent

import pytest

from pipeline import child
from tests.sources import ROOT
from tests.wait import PATIENCE_S

GUIDE = ROOT / "CONTRIBUTING.md"
RECIPES = ("A field", "A source", "A detector", "An alert and its panel")
FENCE = re.compile(r"^( *)```(\w+)(?: (\S+))?\n(.*?)^\1```$", re.DOTALL | re.MULTILINE)


@dataclass(frozen=True)
class Step:
    """One file that is edited or written by hand."""

    path: str
    text: str
    is_diff: bool

    def apply(self, root: Path) -> None:
        """Edit or write the file. The context of a diff must be found exactly once."""
        target = root / self.path
        if not self.is_diff:
            assert not target.exists(), f"{self.path} is not new"
            target.write_text(self.text, encoding="utf-8")
            return
        before = target.read_text(encoding="utf-8")
        for hunk in re.split(r"^@@.*\n", self.text, flags=re.MULTILINE):
            lines = hunk.splitlines(keepends=True)
            old, new = ("".join(line[1:] or line for line in lines if line[0] != x) for x in "+-")
            assert before.count(old) == 1, f"{self.path} has {before.count(old)} times:\n{old}"
            before = before.replace(old, new)
        target.write_text(before, encoding="utf-8")


@dataclass(frozen=True)
class Recipe:
    """Files by hand, then commands that generate, then commands that check."""

    steps: tuple[Step, ...]
    generate: tuple[str, ...]
    check: tuple[str, ...]


def recipe(title: str) -> Recipe:
    """A recipe as the guide has it."""
    text = GUIDE.read_text(encoding="utf-8")
    section = re.split(r"^##", text.partition(f"\n### {title}\n")[2], flags=re.MULTILINE)[0]
    steps: list[Step] = []
    commands: list[tuple[str, ...]] = []
    for indent, language, path, body in FENCE.findall(section):
        block = "".join(line.removeprefix(indent) for line in body.splitlines(keepends=True))
        if path:
            steps.append(
                Step(path, dedent(block) if language != "diff" else block, language == "diff")
            )
        else:
            commands.append(tuple(block.splitlines()))
    generate, check = commands
    return Recipe(tuple(steps), generate, check)


RUNNER = """
import json, os, pathlib, runpy, sys
import pytest

for kind, *rest in json.loads(sys.argv[1]):
    if kind == "script":
        sys.path.insert(0, str(pathlib.Path(rest[0]).parent))
        sys.argv[1:] = rest[1:]
        runpy.run_path(rest[0], run_name="__main__")
    elif kind == "grep":
        assert rest[0] in pathlib.Path(rest[1]).read_text(), rest
    else:
        os.environ["TOCSIN_UPDATE_GOLDEN"] = rest[0]
        if status := pytest.main(["-q", "-x", "-p", "no:cacheprovider", *rest[1:]]):
            sys.exit(status)
"""


def programs(commands: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """Commands of the guide as the runner takes them: a target of make is the scripts it runs."""
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for command in commands:
        words = shlex.split(command)
        if words[0] == "make":
            for target in words[1:]:
                rule = makefile.partition(f"\n{target}: ")[2].partition("\n\n")[0]
                yield from (("script", script) for script in re.findall(r"bin/python (\S+)", rule))
        elif words[0] == "grep":
            yield tuple(words)
        else:
            update = str(int(words[0] == "TOCSIN_UPDATE_GOLDEN=1"))
            yield "pytest", update, *words[words.index("pytest") + 1 :]


class Tree:
    """A copy of the tree that is restored after every use."""

    def __init__(self, root: Path) -> None:
        self.root = root
        listed = child.run(
            ["git", "-C", str(ROOT), "-c", "safe.directory=*", "ls-files"], timeout_s=PATIENCE_S
        )
        assert listed.returncode == 0, listed.stderr.decode()
        self._files = [Path(name) for name in listed.stdout.decode().splitlines()]
        for file in self._files:
            (root / file).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / file, root / file)
        self._states = self._look()

    def follow(self, recipe: Recipe, without: str = "") -> child.Finished:
        """Apply the steps but one, generate and check."""
        orders = json.dumps([*programs((*recipe.generate, *recipe.check))])
        # Compiled modules are kept from one recipe to the next.
        variables = {"PYTHONPATH": str(self.root), "PYTHONDONTWRITEBYTECODE": ""}
        try:
            for step in recipe.steps:
                if step.path != without:
                    step.apply(self.root)
            return child.run(
                [sys.executable, "-c", RUNNER, orders],
                cwd=str(self.root),
                env={**os.environ, **variables},
                timeout_s=PATIENCE_S,
            )
        finally:
            self._restore()

    def _look(self) -> dict[Path, int]:
        """When each file was changed."""
        found = (path for path in self.root.rglob("*") if path.is_file())
        return {
            path.relative_to(self.root): path.stat().st_mtime_ns
            for path in found
            if "__pycache__" not in path.parts
        }

    def _restore(self) -> None:
        for file, changed_ns in self._look().items():
            if file not in self._states:
                (self.root / file).unlink()
            elif self._states[file] != changed_ns:
                shutil.copy2(ROOT / file, self.root / file)


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Tree:
    """One copy for all recipes."""
    return Tree(tmp_path_factory.mktemp("copy"))


@pytest.mark.slow
@pytest.mark.parametrize("title", RECIPES)
def test_a_recipe_that_is_followed_works(tree: Tree, title: str) -> None:
    """With every step the checks of the recipe pass."""
    done = tree.follow(recipe(title))
    assert done.returncode == 0, (done.stdout + done.stderr).decode()


STEPS = [(title, step.path) for title in RECIPES for step in recipe(title).steps]


@pytest.mark.slow
@pytest.mark.parametrize(("title", "path"), STEPS, ids=[path for _, path in STEPS])
def test_no_step_of_a_recipe_is_superfluous(tree: Tree, title: str, path: str) -> None:
    """Without one step, its checks fail."""
    assert tree.follow(recipe(title), without=path).returncode not in (0, None)


@pytest.mark.parametrize("title", RECIPES)
def test_the_guide_counts_the_files_of_a_recipe(title: str) -> None:
    """The table has as many as the recipe has steps."""
    link = title.lower().replace(" ", "-")
    row = re.search(rf"\(#{link}\) \| (.*) \|", GUIDE.read_text(encoding="utf-8"))
    assert row
    assert sum(map(int, re.findall(r"\d+", row[1]))) == len(recipe(title).steps)
