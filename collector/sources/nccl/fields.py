"""Fields of messages from jobs whose numbers are bounded when they are decoded."""

from __future__ import annotations

from typing import Annotated

import msgspec

from collector.sources.bounds import LATEST_NS, MAX_INT64

# NCCL's counters are uint64_t, all else is int (src/include/ras.h); the store's columns are int64.
Count = Annotated[int, msgspec.Meta(ge=0, le=MAX_INT64)]
Sequence = Annotated[int, msgspec.Meta(lt=MAX_INT64)]  # one more is a count
Int32 = Annotated[int, msgspec.Meta(ge=-(1 << 31), le=(1 << 31) - 1)]
Microseconds = Annotated[int, msgspec.Meta(ge=0, lt=LATEST_NS // 1000)]  # unix time
