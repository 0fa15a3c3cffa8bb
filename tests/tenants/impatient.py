"""The reader of the NCCL source, which waits for a silent RAS server for a few seconds only: a
module of its own, since it is loaded in the child.
"""

from __future__ import annotations

from collector.sources.nccl import reader as real
from collector.sources.nccl.ras import client
from collector.sources.tenants.desk import Mark

READ_S = 3.0  # longer than a healthy one takes: collector/sources/tenants/patience.py


def reader(mark: Mark, proc: str) -> real.NcclReader:
    """The reader of a child."""
    assert client.ask.__kwdefaults__
    client.ask.__kwdefaults__["read_s"] = READ_S
    return real.reader(mark, proc)
