"""The vendor's bundle: what a support case asks for, collected before an act destroys it."""

from __future__ import annotations

import json
import re
import shutil
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from collector.repair.case import Case
from collector.repair.programs import PATHS, FailedError, failure, output
from pipeline import child

MAX_BUNDLES = 20  # of a node; the oldest are deleted
QUERY_S, EXPORT_S = 60.0, 300.0
BUG_REPORT = "nvidia-bug-report.sh"


@dataclass(frozen=True, slots=True)
class Bundles:
    """Below ``folder`` (empty: none are made). ``store`` is the agent's storage path."""

    folder: str
    store: Path
    host: str
    bug_report_s: float = 600.0
    path: str = PATHS

    def make(self, case: Case) -> str:
        """The folder, or empty where it cannot be made. What could not be collected is named in
        it; nothing of it stops a repair.
        """
        if not self.folder:
            return ""
        stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
        name = _safe(f"{self.host}-{stamp}-{case.device}")[:120]
        folder = Path(self.folder) / name
        try:
            folder.mkdir(mode=0o700, parents=True)
            self._fill(folder, case)
            self._prune()
        except OSError:
            return ""
        return str(folder)

    def _fill(self, folder: Path, case: Case) -> None:
        missing = {}
        if case.kind == "gpu":
            missing["nvidia-smi -q"] = self._query(folder / "nvidia-smi.txt", case.device)
        if self.bug_report_s > 0:
            report = str(folder / "nvidia-bug-report.log")
            command = [BUG_REPORT, "--safe-mode", "--output-file", report]
            missing[BUG_REPORT] = failure(*command, deadline_s=self.bug_report_s, path=self.path)
        argv = ("export", "--incident", case.incident, "-o", str(folder / "evidence.zip"))
        command = child.python("collector.cli.main", *argv, "--storage.path", str(self.store))
        missing["tocsin export"] = failure(*command, deadline_s=EXPORT_S)
        summary = {
            "host": self.host,
            **{key: value for key, value in asdict(case).items() if key != "intent"},
            "missing": {what: why for what, why in missing.items() if why},
        }
        (folder / "case.json").write_text(json.dumps(summary, indent=2), encoding="utf-8")

    def _query(self, file: Path, uuid: str) -> str:
        try:
            argv = ("nvidia-smi", "-q", "-i", uuid)
            file.write_bytes(output(*argv, deadline_s=QUERY_S, path=self.path))
        except FailedError as error:
            return str(error)
        return ""

    def _prune(self) -> None:
        own = re.compile(rf"{re.escape(_safe(self.host))}-\d{{8}}T\d{{6}}Z-")
        found = sorted(one for one in Path(self.folder).iterdir() if own.match(one.name))
        for old in found[:-MAX_BUNDLES]:
            shutil.rmtree(old, ignore_errors=True)


def _safe(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9-]", "_", text)
