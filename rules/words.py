"""What each fault is in plain words, as it follows the device in an alert."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pipeline.xid.table import TABLE, read_table, xid_entry

# Faults of detectors/faults that page or make a ticket; a test holds the two together.
WORDS: Mapping[str, str] = {
    "gpu_lost": "fell off the PCIe bus",
    "gpu_absent": "is missing: the driver no longer lists it",
    "gpu_hung": "hangs: calls to its driver do not return",
    "gpu_unreadable": "is listed by the driver but cannot be read",
    "gpu_driver/fatal": "was given up by the driver until the node restarts",
    "driver_hung": "the GPU driver hangs: its calls do not return",
    "xid/application": "XID error of the kind that programs cause",
    "xid/repeated": "the same XID error again and again, also with other programs",
    "xid/gpu": "XID error of the hardware",
    "xid/memory": "XID error of its memory",
    "xid/nvlink": "XID error of an NVLink",
    "xid/nvlink_domain": "NVLink errors on many GPUs of the NVLink domain",
    "xid/recovery_action": "the driver asks for a reset or restart",
    "xid/node_suspect": "XID errors on several GPUs, which points to the node",
    "nvswitch/fatal": "fatal error of an NVSwitch (SXID)",
    "nvswitch/nonfatal": "error of an NVSwitch (SXID)",
    "ecc/uncorrectable": "uncorrectable memory error",
    "ecc/remap_pending": "a bad memory row is replaced at the next reset",
    "ecc/remap_failed": "a bad memory row could not be replaced",
    "ecc/sram": "uncorrectable SRAM errors beyond the threshold",
    "ecc/unrepairable": "memory that cannot be repaired",
    "ecc/spare_rows_gone": "a memory bank has no spare rows left",
    "ecc/spare_rows_low": "a memory bank has few spare rows left",
    "ecc/remaps_jumped": "many memory rows were replaced at once",
    "ecc/remaps_repeat": "memory rows were replaced again and again",
    "ecc/pages_retired": "memory pages were retired",
    "ecc/correctable_trend": "corrected memory errors become more frequent",
    "thermal/hw_slowdown": "slowed down by the hardware because it is too hot",
    "thermal/resistance": "heat is carried away less well than before",
    "thermal/imminent": "close to its slowdown temperature",
    "thermal/cooling": "the cooling fails: temperatures rise together",
    "throttle/hw_power_brake": "slowed down by the power brake of the chassis",
    "throttle/sw_thermal": "slowed down by the driver because it is hot",
    "throttle/power_cap": "slowed down at its power limit more than its peers",
    "power": "draws less power than before at the same load",
    "power_limit/low": "its power limit was lowered",
    "pcie/width": "its PCIe link runs with too few lanes",
    "pcie/generation": "its PCIe link runs at too low a speed",
    "pcie/replays": "its PCIe link repeats too many packets",
    "pcie/fatal": "fatal PCIe error",
    "pcie/contained": "taken off the PCIe bus to contain an error",
    "nvlink/link_down": "an NVLink is down",
    "nvlink/none_up": "no NVLink is up",
    "nvlink/replays": "an NVLink repeats too many packets",
    "nvlink/crc": "CRC errors on an NVLink",
    "nvlink/bit_errors": "too many bit errors on an NVLink",
    "nvlink/fec_tail": "error correction of an NVLink works near its limit",
    "nvlink_fabric/unhealthy": "the NVLink fabric reports that it is not healthy",
    "nvlink_fabric/limited": "reaches the NVLink fabric by fewer routes than it should",
    "nvlink_fabric/registration": "did not register with the NVLink fabric",
    "nvlink_fabric/manager": "Fabric Manager does not run or fails",
    "nvlink_fabric/stopped": "Fabric Manager has stopped",
    "nvlink_fabric/configuration": "Fabric Manager does not expect the GPU or connect it",
    "ib/link_down": "link down",
    "ib/slow_link": "the link runs below its speed or width",
    "ib/switch_down": "links to one switch are down together",
    "ib/adapter_gone": "the adapter disappeared",
    "ib/adapter_health": "the adapter reports that it is not healthy",
    "ib/adapter_fatal": "fatal error of the adapter",
    "ib/adapter_temperature": "the adapter or its module is too hot",
    "ib/adapter_power": "the adapter or its module lacks power",
    "ib/adapter_cable": "the adapter reports a cable or module fault",
    "ib/adapter_unknown": "the adapter reports an error that is not in the catalogue",
    "ib/errors": "receive errors or discards",
    "ib/fec_tail": "error correction of the link works near its limit",
    "ib_ber": "too many bit errors for its rate",
    "ib_flap": "the link goes down and up again and again",
    "counter_saturated": "an error counter is at its end and counts no more",
    "adapter/fatal": "fatal error of a network adapter",
    "adapter/errors": "errors of a network adapter",
    "hang/hardware": "the job waits for this device, which has a hardware fault",
    "hang/link": "the job waits for this link",
    "hang/rank_stuck": "the job waits for a rank that does nothing",
    "hang/rank_busy": "the job waits for a rank that computes without end",
    "hang/crawl": "the job runs at a fraction of its speed",
    "hang/undecided": "the job stands still, and no rank stands out",
    "hang/waits": "the job waits longer than usual for one that writes or loads",
    "hang/host_stall": "the job stands still because its host, storage or network does",
    "hang/process_lost": "the job stands still since one of its processes ended",
    "hang/in_flight": "the job stands still in a collective that was started and never ended",
    "hang/hardware_fault": "the job stands still after a hardware error on this rank",
    "hang/order_mismatch": "the job stands still: its ranks call collectives in different order",
    "hang/host_hang": "the job waits for a rank that launched no further collective",
    "hang/straggler": "the job waits for one rank that is behind",
    "hang/launch_order_deadlock": "the job stands still: collectives launched in different order",
    "hang/init_hang": "the job stands still while it sets up its communicators",
    "hang/storage": "the job stands still because its storage does",
    "hang/global_host_phase": "all ranks of the job are busy outside collectives",
    "hang/slow_uniform": "all ranks of the job are slow alike",
    "hang/unknown": "the job stands still for a reason that its evidence does not show",
    "straggler": "slower than its peers in the job",
    "straggler/node": "all of its GPUs are slower than they were at this load",
    "straggler/slow_straggler": "slower than its peers, by the job's own report",
    "straggler/slow_network": "slow in communication, by the job's own report",
    "host/panic": "kernel panic",
    "host/crashed": "restarted without being asked to",
    "host/unknown_event": "an event of a kind that this version does not know",
    "host/oops": "kernel error (oops)",
    "host/lockup": "a processor is locked up",
    "host/rcu_stall": "a processor does not respond to the kernel (RCU stall)",
    "host/hung_task": "processes hang in the kernel",
    "host/exhausted": "a limit of the kernel is reached",
    "host/cpu_hot": "a processor is too hot",
    "host/own_limit": "a job reached its own limit of processes",
    "host/oom": "the kernel killed a process for want of memory",
    "host_hardware/uncorrected": "uncorrected error of host memory or processor",
    "host_hardware/corrected": "too many corrected errors of host memory or processor",
    "host_hardware/page_retired": "a page of host memory was taken out of use",
    "storage/server": "a file server does not respond",
    "storage/read_only": "a file system became read-only",
    "storage/filesystem": "errors of a file system",
    "storage/disk": "a disk failed",
    "observability/frozen": "readings do not change any more",
    "observability/unread": "cannot be read, so its faults go unseen",
    "detector_failed": "a detector fails, so what it looks for goes unseen",
    "lemon": "many small faults within weeks",
    "drift/gpu_driver_version": "another driver version than expected",
    "drift/gpu_vbios": "another VBIOS version than its peers",
    "drift/gpu_inforom_image": "another InfoROM version than its peers",
    "drift/gpu_ecc_mode_current": "another ECC mode than its peers",
    "drift/gpu_persistence_mode": "another persistence mode than its peers",
    "drift/gpu_power_limit": "another power limit than its peers",
    "drift/ib_port_firmware": "another adapter firmware than its peers",
    "drift/ib_port_mtu": "another MTU than its peers",
    "drift/ib_port_gid": "another GID table than its peers",
    "drift/node_kernel": "another kernel than its peers",
    "drift/node_mlx5_driver": "another mlx5 driver than its peers",
    "waste/memory": "GPU memory is in use that no process holds",
}


# Codes that come with others, and say something beside the one that is to blame.
WITH_OTHERS = frozenset({63, 74, 92, 94, 154})


def paging_xids() -> dict[int, str]:
    """The codes that page on their own, and what they mean."""
    rows = read_table(TABLE).items()
    return {code: entry.description for code, entry in rows if entry.level == "page"}


def other_xids() -> dict[int, str]:
    """Further codes that are worth their meaning."""
    return {code: xid_entry(code).description for code in sorted(WITH_OTHERS)}


def of_xid(meanings: Mapping[int, str]) -> str:
    """The meaning of the sample's label ``xid`` as a template; empty for other codes."""
    cases = "{{ else if ".join(
        f'eq .Labels.xid "{code}" }}}} ({text})' for code, text in meanings.items()
    )
    return f"{{{{ if {cases}{{{{ end }}}}"


def of_class(classes: Iterable[str], fact: str) -> str:
    """The words of ``$labels.class`` as a template; ``fact`` for a class without any."""
    named = [name for name in WORDS if name.partition("/")[0] in set(classes)]
    if not named:
        return fact
    cases = "{{ else if ".join(f'eq $labels.class "{name}" }}}}{WORDS[name]}' for name in named)
    return f"{{{{ if {cases}{{{{ else }}}}{fact}{{{{ end }}}}"
