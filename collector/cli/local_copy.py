"""A store that may be far away, as a local folder: what is asked for is copied."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from collector.config.raw_setting import ConfigError
from pipeline.store.remote.upload_plan import Target, scheme

Fetch = Callable[[Any, Any, tuple[str, ...]], int]


def near(
    url: str, target: Target, scratch: Path, setting: str = "storage.path"
) -> tuple[Path, Fetch]:
    """The folder that a store lies in, and how to get files into it: (tables, window, hosts) to the
    number of files that were copied.

    A local folder needs none; from a remote store files are copied to ``scratch``, the way
    ``target`` says. ConfigError names the ``setting`` where there is no such place.
    """
    manifest: Any = importlib.import_module("pipeline.store.remote.manifest")
    if "://" not in url:
        if not Path(url).is_dir():
            raise ConfigError(f"{setting}: {url} does not exist")
        if not (Path(url) / manifest.ROOT).is_dir():
            return Path(url), lambda *_: 0
        # a directory that a cluster shares: its manifests say which files count
        target, url = Target(""), str(Path(url).absolute())
    try:
        scheme(url)
    except ValueError as error:
        raise ConfigError(f"{setting}: {error}") from error
    objects: Any = importlib.import_module("pipeline.store.remote.objects")
    fetches: Any = importlib.import_module("pipeline.store.remote.fetch")
    remote = objects.open_objects(replace(target, url=url))
    return scratch, lambda tables, window, hosts: fetches.fetch(
        remote, scratch, tables, window, hosts
    )
