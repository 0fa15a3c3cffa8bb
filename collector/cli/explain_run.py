"""What ``tocsin explain`` does: looks the incident up, prints it, draws it."""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from collector.cli.options import inputs
from collector.cli.progress import Progress
from collector.cli.terminal import plain
from collector.config.load import load
from collector.config.raw_setting import ConfigError
from collector.config.settings import Config
from collector.explaining.picture import panels
from collector.explaining.words import words
from pipeline.short_ids import UnknownIdError
from pipeline.store.query.file_store import ChangingError
from pipeline.store.query.incident_history import history_of
from pipeline.store.query.plot import svg
from pipeline.store.query.store import Store
from pipeline.store.remote.objects import RefusedError

DONE, FAILED = 0, 1


def explain(args: argparse.Namespace) -> int:
    """Say it and draw it; 1 where it is not in the store."""
    if args.plot and not args.plot.endswith(".svg"):
        raise ConfigError(
            f"--plot: {args.plot} does not end in .svg, the form of all plots here; browsers and "
            "image programs convert it"
        )
    config = load(inputs(args)).config
    bar = Progress(sys.stderr)
    try:
        store = opened(config, bar)
        history = history_of(store, args.id[0])
        bar.close()
        for line in words(history, datetime.now(UTC)):
            print(plain(line))
        if args.plot:
            Path(args.plot).write_text(svg(panels(store, history)), encoding="utf-8")
    except BrokenPipeError:  # `| head` has seen enough: no failure to name
        raise
    except (UnknownIdError, RefusedError, ChangingError, OSError) as error:
        print(f"tocsin: {plain(str(error))}", file=sys.stderr)
        return FAILED
    finally:
        bar.close()
    for why in store.left_out:
        print(f"tocsin: left out: {why}", file=sys.stderr)
    return DONE


def opened(config: Config, bar: Progress) -> Store:
    """The store of the settings. ConfigError where there is none."""
    url = config.storage.path
    try:
        return Store(url, target=replace(config.storage.upload.target, url=url), progress=bar)
    except FileNotFoundError as error:
        raise ConfigError(f"storage.path: {error}") from error
