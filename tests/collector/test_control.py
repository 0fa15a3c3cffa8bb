"""The control socket outlives what it is asked."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from collector.control import Control, request


def test_a_handler_that_fails_ends_its_request_and_not_the_listening(tmp_path: Path) -> None:
    """The client is told what went wrong; the next one is answered."""

    def handler(message: dict[str, Any]) -> dict[str, Any]:
        return {"half": 1 / int(message["by"])}

    control = Control(tmp_path, handler)
    try:
        with pytest.raises(ValueError, match="ZeroDivisionError: division by zero"):
            request(tmp_path, {"by": 0})
        assert request(tmp_path, {"by": 2})["half"] == 0.5
    finally:
        control.close()
