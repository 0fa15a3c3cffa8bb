"""Our scripts as hooks of a real Slurm: wrappers say where a test's parts are, since hooks
get next to no environment.
"""

from __future__ import annotations

import sys
from pathlib import Path

from tests.agents import PROGRAM
from tests.slurm import Slurm
from tests.sources import ROOT

SCRIPTS = ROOT / "deploy" / "slurm"
# As a site has it in slurm.conf.
MORE = """\
HealthCheckProgram={directory}/tocsin-health
HealthCheckInterval=1
HealthCheckNodeState=ANY
Prolog={directory}/tocsin-prolog
Epilog={directory}/tocsin-epilog"""


def install(cluster: Slurm, folder: Path) -> None:
    """Before the cluster starts.

    ``folder`` holds the agents' storage paths, by the node's name, and the mapping of jobs.
    """
    program = folder / "tocsin"
    program.write_text(
        f"#!/bin/sh\nexec env PYTHONPATH={ROOT} {sys.executable} -c '{PROGRAM}' \"$@\"\n"
    )
    program.chmod(0o755)
    for name in ("tocsin-health", "tocsin-prolog", "tocsin-epilog"):
        wrapper = cluster.directory / name
        wrapper.write_text(
            "#!/bin/sh\n"
            f"export SLURM_CONF={cluster.configuration} PATH={folder}:/usr/bin:/bin "
            f"TOCSIN_JOB_MAPPING={folder}/mapping\n"
            f"export TOCSIN_STORAGE__PATH={folder}/$SLURMD_NODENAME\n"
            f"exec {SCRIPTS}/{name}\n"
        )
        wrapper.chmod(0o755)
