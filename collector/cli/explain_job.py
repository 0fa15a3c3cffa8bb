"""What ``tocsin explain job`` does: the page of a job's life, from the store."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from collector.cli.explain_run import opened
from collector.cli.options import inputs
from collector.cli.progress import Progress
from collector.cli.terminal import plain
from collector.config.load import load
from collector.config.raw_setting import ConfigError
from collector.job_page.document import document
from collector.job_page.html import page
from collector.job_page.life import Life, life_of
from collector.job_page.words import lines
from pipeline.short_ids import UnknownIdError
from pipeline.store.query.file_store import ChangingError
from pipeline.store.query.store import Window
from pipeline.store.remote.objects import RefusedError

FORMS: Mapping[str, Callable[[Life], str]] = {
    "text": lambda life: "".join(f"{plain(line)}\n" for line in lines(life)),
    "html": page,
    "json": lambda life: json.dumps(document(life), indent=2) + "\n",
}


def explain_job(args: argparse.Namespace, job: str) -> int:
    """Write the page; 1 where the store does not know the job."""
    if args.run_number < 0:
        raise ConfigError("--run: expected a number from 1")
    bar = Progress(sys.stderr)
    store = opened(load(inputs(args)).config, bar)
    try:
        life = life_of(store, job, Window(), args.run_number)
        bar.close()
        if args.run_number > len(life.others) + 1:
            known = len(life.others) + 1
            raise ConfigError(
                f"--run: {args.run_number} of {known} that the store has of job {job}"
            )
        text = FORMS[args.format](life)
        if args.output:
            Path(args.output).write_text(text, encoding="utf-8")
        else:
            sys.stdout.write(text)
    except BrokenPipeError:  # `| head` has seen enough: no failure to name
        raise
    except (UnknownIdError, RefusedError, ChangingError, OSError) as error:
        bar.close()
        print(f"tocsin: {plain(str(error))}", file=sys.stderr)
        return 1
    for why in store.left_out:
        print(f"tocsin: left out: {why}", file=sys.stderr)
    return 0
