"""Files that decide who is let in: read whole, within bounds, and only where nobody
else can have written them.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path

from collector.config.raw_setting import ConfigError


def content(
    file: Path, where: str, max_bytes: int, *, exposed: Callable[[str], None] | None = None
) -> bytes:
    """The file's bytes; ConfigError beginning with ``where`` if it cannot be read, is too large,
    or everybody may write it.

    A file that is a secret has ``exposed``, which is reported where everybody may read it: volumes
    of Kubernetes are mounted so.
    """
    try:
        with file.open("rb") as stream:
            mode = stat.S_IMODE(os.fstat(stream.fileno()).st_mode)
            read = stream.read(max_bytes + 1)
    except OSError as error:
        raise ConfigError(f"{where}: cannot be read: {error.strerror}") from error
    if mode & stat.S_IWOTH:
        raise ConfigError(f"{where}: everybody may write it (mode {mode:04o}): chmod o-w")
    if exposed is not None and mode & stat.S_IROTH:
        exposed(
            f"{where}: everybody on this machine may read this secret (mode "
            f"{mode:04o}): chmod 0600, or 0640"
        )
    if len(read) > max_bytes:
        raise ConfigError(f"{where}: is larger than {max_bytes} bytes")
    return read
