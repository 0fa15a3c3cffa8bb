"""What is wrong with a configuration; a file of its own, since code that catches
it need not read settings.
"""

from __future__ import annotations


class ConfigError(ValueError):
    """All that is wrong with a configuration, one line each."""

    def __init__(self, *problems: str) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems
