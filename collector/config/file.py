"""The YAML file: settings with the line they stand on, and everything in it that is no setting."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from pathlib import Path

import yaml

from collector.config import tree
from collector.config.raw_setting import RawSetting

MAX_BYTES = 1 << 20  # a configuration is a page; more is the wrong file


def read(file: Path) -> tuple[list[RawSetting], list[str]]:
    """Settings of a file and its problems, each beginning with ``file:line``.

    An empty file gives neither.
    """
    try:
        with file.open("rb") as stream:
            content = stream.read(MAX_BYTES + 1)
    except OSError as error:
        return [], [f"{file}: cannot be read: {error.strerror}"]
    if len(content) > MAX_BYTES:
        return [], [f"{file}: is larger than {MAX_BYTES} bytes"]
    try:
        return _settings(file, content.decode())
    except UnicodeDecodeError as error:
        return [], [f"{file}: is not UTF-8 text: {error.reason} at byte {error.start}"]
    except RecursionError:
        return [], [f"{file}: is nested too deeply"]
    except yaml.YAMLError as error:
        return [], [f"{file}:{_line(error)} is not valid YAML: {_problem(error)}"]


def _settings(file: Path, text: str) -> tuple[list[RawSetting], list[str]]:
    loader = yaml.SafeLoader(text)
    given: list[RawSetting] = []
    problems: list[str] = []
    try:
        root = loader.get_single_node()
        for item in _walk(loader, root, (), str(file)) if root is not None else ():
            if isinstance(item, RawSetting):
                given.append(item)
            else:
                problems.append(item)
    finally:
        loader.dispose()
    return given, problems


def _walk(
    loader: yaml.SafeLoader, node: yaml.Node, path: tree.Path, file: str
) -> Iterator[RawSetting | str]:
    where = f"{file}:{node.start_mark.line + 1}: {'.'.join(path) or 'the file'}"
    if path in tree.settings():
        try:
            yield RawSetting(path, loader.construct_object(node, deep=True), where, text=False)
        except ValueError as error:  # a scalar that looks like a date but is none
            yield f"{where}: {error}"
    elif isinstance(node, yaml.MappingNode):
        yield from _children(loader, node, path, file)
    elif node.tag != "tag:yaml.org,2002:null":
        yield f"{where}: expected settings as `name: value`"


def _children(
    loader: yaml.SafeLoader, node: yaml.MappingNode, path: tree.Path, file: str
) -> Iterator[RawSetting | str]:
    known = {p[len(path)] for p in tree.settings() if p[: len(path)] == path}
    seen: set[str] = set()
    for key_node, value in node.value:
        key = str(key_node.value) if isinstance(key_node, yaml.ScalarNode) else "?"
        where = f"{file}:{key_node.start_mark.line + 1}: {'.'.join((*path, key))}"
        if key not in known:
            yield f"{where}: {unknown(key, known)}"
        elif key in seen:
            yield f"{where}: is set twice"
        else:
            yield from _walk(loader, value, (*path, key), file)
        seen.add(key)


def unknown(name: str, known: set[str]) -> str:
    """What to say about a name that does not exist."""
    close = difflib.get_close_matches(name, known, n=1)
    if close:
        return f"unknown setting, did you mean {close[0]}?"
    return (
        f"unknown setting; known: {', '.join(sorted(known))}"
        if len(known) < 20
        else "unknown setting"
    )


def _line(error: yaml.YAMLError) -> str:
    mark = getattr(error, "problem_mark", None)
    return f"{mark.line + 1}:" if mark is not None else ""


def _problem(error: yaml.YAMLError) -> str:
    return str(getattr(error, "problem", None) or getattr(error, "reason", None) or error)
