"""One rank of a small training job that stands still at a known place; run by an
interpreter that has PyTorch.

    python worker.py RANK WORLD FOLDER CULPRIT FAULT

Ranks form pairs and a world. Each step reduces in the pair, then in the world. At step ``LAST`` the
culprit does as FAULT says: ``sleep`` never comes to the reduction of its pair, ``other`` calls
broadcast where the others reduce in the world. Progress goes to FOLDER/RANK.step; the Flight
Recorder answers on FOLDER/RANK.sock, as for jobs that use
torch.distributed.elastic.control_plane.worker_main.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from threading import Event

LAST = 5


def main() -> None:
    """Work, then stand still until killed."""
    rank, world, culprit = int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[4])
    folder, fault = Path(sys.argv[3]), sys.argv[5]
    import torch  # type: ignore[import-not-found, unused-ignore] # noqa: PLC0415 - in the interpreter that runs this, not in ours
    from torch import distributed  # noqa: PLC0415 - likewise
    from torch._C._distributed_c10d import _WorkerServer  # type: ignore[import-not-found, unused-ignore] # noqa: PLC0415 - likewise

    server = _WorkerServer(os.environ["TORCH_WORKER_SERVER_SOCKET"])
    distributed.init_process_group(
        "gloo", init_method=f"file://{folder}/store", rank=rank, world_size=world
    )
    pairs = [distributed.new_group([first, first + 1]) for first in range(0, world, 2)]
    data = torch.ones(16)
    for step in range(1, LAST + 1):
        mine = step == LAST and rank == culprit
        (folder / f"{rank}.step").write_text(str(step))
        if mine and fault == "sleep":
            Event().wait()
        distributed.all_reduce(data, group=pairs[rank // 2])
        if mine and fault == "other":
            distributed.broadcast(data, src=rank)
        distributed.all_reduce(data)
    server.shutdown()


if __name__ == "__main__":
    main()
