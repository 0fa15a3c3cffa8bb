"""The command ``tocsin``: one file per subcommand."""

from collector.cli.main import main

__all__ = ["main"]
