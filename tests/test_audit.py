"""`make audit` says what it audited, and takes no audit that failed for a clean one."""

from __future__ import annotations

import json
import runpy
from pathlib import Path
from typing import Any

import pytest

from tests.sources import ROOT

TOOL = runpy.run_path(str(ROOT / "tools" / "audit.py"), run_name="audit")
audit, nothing, packages_of, report = (
    TOOL[name] for name in ("audit", "nothing", "packages_of", "report")
)

CLEAN = {"name": "numpy", "version": "2.1.0", "vulns": []}
HURT = {
    "name": "aiohttp",
    "version": "3.9.0",
    "vulns": [{"id": "PYSEC-2024-24", "fix_versions": ["3.9.2"], "description": "long"}],
}
SKIPPED = {"name": "ours", "skip_reason": "not found on PyPI"}


def of(*packages: object, wanted: int = 2) -> Any:
    """The report when pip-audit answers this."""
    return report(json.dumps({"dependencies": packages}), wanted, "")


def test_all_audited_and_nothing_known_is_a_clean_report() -> None:
    """With the number of packages that it is about."""
    assert of(CLEAN, CLEAN) == (("2 of 2 packages audited, 0 known vulnerabilities",), 0)


def test_a_known_vulnerability_is_named_with_the_version_that_fixes_it() -> None:
    """Also where another package could not be audited."""
    for other in (CLEAN, SKIPPED):
        result = of(HURT, other)
        assert result.lines[0] == "aiohttp 3.9.0: PYSEC-2024-24: fixed in 3.9.2"
        assert result.code == 1


def test_a_package_that_was_left_out_is_named_and_the_code_is_3() -> None:
    """By pip-audit, or because its answer has no word of it."""
    result = of(CLEAN, SKIPPED)
    assert "not audited: ours: not found on PyPI" in result.lines
    assert result.code == of(CLEAN).code == 3


@pytest.mark.parametrize("answer", ["", "no json", "[]", '{"dependencies": 3}'])
def test_no_answer_says_that_nothing_was_audited_and_why(answer: str) -> None:
    """The last line of standard error is the reason."""
    result = report(answer, 40, "trace\nConnectionError: no network\n")
    assert result == nothing("ConnectionError: no network")
    assert result.lines[0].startswith("nothing was audited: ")
    assert result.code == 3


@pytest.mark.slow
def test_the_answer_of_the_tool_is_what_is_reported(tmp_path: Path) -> None:
    """A pip-audit of the test in place of the real one, asked about the real lock file."""
    tool = tmp_path / "bin/pip-audit"
    tool.parent.mkdir()
    tool.write_text("#!/bin/sh\necho 'ServiceError: no connection' >&2\nexit 1\n")
    tool.chmod(0o755)
    (tmp_path / ".made").touch()
    assert audit(ROOT, tmp_path) == nothing("ServiceError: no connection")
    assert packages_of(ROOT / "requirements.txt") > 10
