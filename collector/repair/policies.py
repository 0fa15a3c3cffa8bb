"""What a configuration allows a repair: the draining of its scheduler, and its own switches."""

from __future__ import annotations

from collector.config.gates import Gates, Repair
from collector.integrations.policy import Policy
from collector.repair.site import Switches


def policy_of(gates: Gates) -> tuple[Policy, tuple[tuple[str, ...], float]]:
    """The policy of draining, and the burn-in check with its deadline."""
    slurm = gates.repair.scheduler == "slurm"
    draining = gates.slurm if slurm else gates.kubernetes.draining
    policy = Policy(
        drain=draining.drain,
        severity=draining.severity,
        most_drained=draining.most_drained,
        most_per_hour=draining.most_per_hour,
        canaries=draining.canaries,
        off_file=gates.off_file,
        where="gates.slurm" if slurm else "gates.kubernetes.draining",
    )
    return policy, (draining.proof, float(draining.proof_deadline))


def switches_of(repair: Repair) -> Switches:
    """One switch for each step; the drain has its own."""
    return Switches(
        reset=repair.reset,
        reboot=repair.reboot,
        return_to_service=repair.return_to_service,
        max_attempts=repair.max_attempts,
        again_within_s=float(repair.again_within),
        settle_s=float(repair.settle),
        services=repair.services,
    )
