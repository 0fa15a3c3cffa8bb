"""Results that were kept by earlier runs, of one state of the code or of several."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from collector.config.raw_setting import ConfigError

PARTS = frozenset({"job", "code", "kind", "needs", "results"})


def kept(folders: Iterable[str]) -> list[dict[str, Any]]:
    """Every result in these folders; of runs with the same name and candidates the
    one in the later folder.

    ConfigError names a folder or file that holds none.
    """
    found: dict[str, dict[str, Any]] = {}
    for folder in folders:
        paths = sorted(Path(folder).glob("*.json"))
        if not paths:
            raise ConfigError(f"--report: {folder}: there are no results")
        results = [(path.name, _result(path)) for path in paths]
        found |= {f"{name} {result['job']['contestants']}": result for name, result in results}
    return list(found.values())


def _result(path: Path) -> dict[str, Any]:
    try:
        result = json.loads(path.read_bytes())
    except (OSError, ValueError) as error:
        raise ConfigError(f"--report: {path}: {error}") from error
    if not isinstance(result, dict) or not result.keys() >= PARTS:
        raise ConfigError(f"--report: {path}: is no result of a run")
    return result
