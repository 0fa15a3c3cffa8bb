"""Troubles of devices as the kernel reports them: NVSwitches, the GPU driver, PCIe, adapters.

Wording: NVIDIA's open kernel modules, and the printk calls of Linux 4.18 to 6.15.
"""

from __future__ import annotations

from simulator.fleet.troubles.trouble import Trouble, lines

_SXID = "nvidia-nvswitch{switch}: SXid (PCI:0000:05:00.0): "
SWITCH = lines(
    *(
        _SXID + text
        for text in (
            "20034, Fatal, Link {link} LTSSM Fault Up",
            "24007, Fatal, Link {link} sourcetrack timeout error (First)",
            "12020, Fatal, Link {link} egress sequence ID error (First)",
            "22013, Fatal, Link {link} Minion Link DLREQ interrupt",
            "14017, Fatal, Link {link} route table ECC DBE error (First)",
            "26006, SOE HALTED",
            "26007, SOE EXTERR",
            "26008, SOE Watchdog error",
            "10003, Host_unhandled_interrupt",
            "10006, NVSWITCH Temperature 110C | Overtemp Threshold 105C",
            "28005, Optical Module {link} overheated, shutting down",
        )
    )
)
AGAIN = lines(
    _SXID + "12028, Non-fatal, Link {link} egress non-posted PRIV error (First)",
    _SXID + "11004, Non-fatal, Link {link} ingress invalid ACL (First)",
    _SXID + "20001, Non-fatal, Link {link} TX Replay Error",
    _SXID + "10004, NVSWITCH Temperature 95C | TSENSE WARN Threshold 93C",
)
SWITCHES = (
    Trouble(SWITCH, "page", halts="dies"),
    Trouble(AGAIN, "ticket", least=10, within_s=3600.0),
)
DRIVER = lines(
    "NVRM: GPU {gpu}: RmInitAdapter failed! (0x62:0xffff:2477)",
    "NVRM: GPU {gpu}: RmInitAdapter failed! (0x26:0x56:1474)",
    "NVRM: GPU {gpu}: rm_init_adapter failed, device minor number 3",
    "NVRM: GPU {gpu}: Failed to initialize the GPU",
    "NVRM: GPU {gpu}: GPU does not have the necessary power cables connected.",
    "NVRM: GPU {gpu}: Cannot initialize GSP firmware RM",
)
# The driver numbers its GPUs by itself here: the node is all that the line names.
DRIVER_OF_NODE = lines(
    "NVRM: GPU0 kgspInitRm_IMPL: Cannot initialize GSP firmware RM",
    "NVRM: krcWatchdog_IMPL: RC watchdog: GPU is probably locked!  Notify Timeout Seconds: 7",
    "NVRM: _kgspLogXid119: ********************* GSP Timeout **********************",
    "NVRM: nvAssertOkFailedNoLog: Assertion failed: GPU lost from the bus [NV_ERR_GPU_IS_LOST] "
    "(0x0000000F) returned from rmStatus @ osinit.c:1234",
    "NVRM: nvAssertFailedNoLog: Assertion failed: status != NV_ERR_GPU_IS_LOST @ gpu.c:12",
    "NVRM: GPU0 nvAssertOkFailedNoLog: Assertion failed: Reset required [NV_ERR_RESET_REQUIRED] "
    "(0x00000074) returned from gpuStateInit",
    "NVRM: knvlinkDiscoverPostRxDetLinks_GH100: Getting peer0's postRxDetLinkMask failed!",
    "NVRM: nvAssertOkFailedNoLog: Assertion failed: Call timed out [NV_ERR_TIMEOUT] (0x00000065) "
    "returned from rpcRecvPoll(pGpu, pRpc, expectedFunc) @ rpc.c:1234",
)
DRIVERS = (
    Trouble(DRIVER, "page", of="gpu", halts="dies", gone=True),
    Trouble(DRIVER_OF_NODE, "page", halts="dies"),
)
CUT_OFF = (
    "pcieport {bridge}: DPC: containment event, status:0x1f01 source:0x{id}",
    "pcieport {bridge}: AER: DPC: containment event, status:0x1f01 source:0x{id}",
    "pcieport {bridge}: DPC: containment event, status:0x1f05, ERR_FATAL received from {pci}",
    "pcieport {bridge}: EDR: containment event, status:0x1f05 source:0x{id}",
    "{driver} {pci}: can't change power state from D3cold to D0 (config space inaccessible)",
    "{driver} {pci}: Unable to change power state from D3cold to D0, device inaccessible",
    "{driver} {pci}: Refused to change power state, currently in D3",
    "{driver} {pci}: Refused to change power state from D0 to D3hot",
)


def _of(which: str, driver: str) -> tuple[tuple[str, ...], ...]:
    names = {"bridge": f"{which}_bridge", "id": f"{which}_id", "pci": which}
    texts = [text.replace("{driver}", driver) for text in CUT_OFF]
    for name, named in names.items():
        texts = [text.replace(f"{{{name}}}", f"{{{named}}}") for text in texts]
    return lines(*texts)


BRIDGES = lines(
    "pcieport {gpu_bridge}: DPC: containment event, status:0x1f01 source:0x0000",
    "pcieport {gpu_bridge}: DPC: unmasked uncorrectable error detected",
    "pcieport {gpu_bridge}: AER: device recovery failed",
    "pcieport {gpu_bridge}: AER: subordinate device reset failed",
    "nvme 0000:81:00.0: can't change power state from D3cold to D0 (config space inaccessible)",
)
PCIE = (
    Trouble(_of("gpu", "nvidia"), "page", of="gpu", halts="dies", gone=True),
    Trouble(_of("port", "mlx5_core"), "page", of="port", halts="dies"),
    Trouble(BRIDGES, "ticket"),
)
_MLX = "mlx5_core {port}: "
ADAPTER = lines(
    _MLX + "wait_func_handle_exec_timeout:1119:(pid {pid}): ENABLE_HCA(0x104) timeout. Will cause "
    "a leak of a command resource",
    _MLX + "wait_func:1037:(pid {pid}): ACCESS_REG(0x805) timeout. Will cause a leak of a command "
    "resource",
    _MLX + "2RST_QP(0x50a) timeout. Will cause a leak of a command resource",
)
TIMEOUTS = lines(
    "mlx5_core {port} {net}: TX timeout detected",
    "mlx5_core {port} {net}: NETDEV WATCHDOG: CPU: 5: transmit queue {n} timed out 15000 ms",
    "NETDEV WATCHDOG: {net} (mlx5_core): transmit queue 3 timed out",
)
COMMANDS = lines(
    _MLX + "mlx5_cmd_out_err:829:(pid {pid}): CREATE_EQ(0x301) op_mod(0x0) failed, status internal "
    "error(0x1), syndrome (0x7d1b), err(-5)",
    _MLX + "mlx5_cmd_check:782:(pid {pid}): CREATE_MKEY(0x200) op_mod(0x0) failed, status limits "
    "exceeded(0x8), syndrome (0x59c8a4)",
)
# Of adapters that have no port which is read.
OTHERS = lines(
    "infiniband rdmap16s27: Admin queue is closed",
    "efa 0000:10:1b.0 rdmap16s27: The device didn't send any completion for admin cmd CREATE_QP(1)",
    "infiniband rdmap16s27: The device sent a completion but the driver didn't receive any MSI-X "
    "interrupt for admin cmd CREATE_QP(1) status 0",
    "efa 0000:10:1b.0: Device isn't ready, abort com init",
    "bnxt_en 0000:5f:00.0 eth2: Firmware not responding, status: 0x1",
    "ena 0000:00:05.0 ens5: Keep alive watchdog timeout.",
)
RECOVERED = (_MLX + "mlx5_health_try_recover:345:(pid {pid}): health recovery succeeded",)
ADAPTERS = (
    Trouble(ADAPTER, "page", of="port", ends=RECOVERED, halts="dies"),
    Trouble(TIMEOUTS, "ticket", of="port", least=3, ends=RECOVERED),
    Trouble(COMMANDS, "ticket", of="port", least=3),
    Trouble(OTHERS, "ticket"),
)
