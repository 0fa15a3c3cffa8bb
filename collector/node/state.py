"""Small facts that survive a restart: one JSON document each, written whole or not at all."""

from __future__ import annotations

import contextlib
import logging
import os
from pathlib import Path
from typing import Any

import orjson

from pipeline.sound_json import sound_json

log = logging.getLogger("tocsin.state")


class State:
    """Documents in one directory, or in memory only where there is none (``path=None``).

    Saving never raises: a full or read-only disk, or a document that cannot be written, is logged
    once per document until it works again, and the agent goes on.
    """

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self._failing: set[str] = set()
        self._memory: dict[str, dict[str, Any]] = {}

    def load(self, name: str) -> dict[str, Any]:
        """A document, empty where it was never saved.

        One that is damaged is set aside (``.damaged``) and counts as empty.
        """
        if self.path is None:
            return self._memory.get(name, {})
        file = self.path / f"{name}.json"
        try:
            document = orjson.loads(file.read_bytes())
            if not isinstance(document, dict):
                raise TypeError(f"holds a {type(document).__name__}, wanted an object")
        except FileNotFoundError:
            return {}
        except (OSError, TypeError, ValueError) as error:
            log.warning("state %s cannot be read, starting without it: %s", file, error)
            with contextlib.suppress(OSError):
                file.replace(file.with_suffix(".damaged"))
            return {}
        return document

    def save(self, name: str, document: dict[str, Any]) -> bool:
        """Replace a document durably (temp file, fsync, rename); False where it is not written."""
        if self.path is None:
            self._memory[name] = document
            return True
        file = self.path / f"{name}.json"
        scratch = file.with_suffix(".new")
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            with scratch.open("wb") as f:
                f.write(sound_json(document, option=orjson.OPT_INDENT_2))
                f.flush()
                os.fsync(f.fileno())
            scratch.replace(file)
        except (OSError, TypeError, ValueError) as error:
            if name not in self._failing:
                log.warning("state %s cannot be written, keeping it in memory: %s", file, error)
            self._failing.add(name)
            return False
        self._failing.discard(name)
        return True
