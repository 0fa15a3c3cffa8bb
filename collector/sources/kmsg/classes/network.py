"""Network and RDMA adapters: links, health, commands, transmit queues."""

from __future__ import annotations

from collector.sources.kmsg.classes.model import PCI, LineClass, line

_MLX5_SOURCE = "drivers/net/ethernet/mellanox/mlx5/core"
# Current kernels print function, line and process first.
_MLX5 = (
    rf"mlx5_core {PCI}(?: (?P<interface>[^ :]{{1,32}}))?: "
    r"(?:[\w.]{1,64}:\d{1,6}:(?:\(pid -?\d{1,10}\):)? ?)?"
)
_LINK_DRIVERS = (
    "atlantic be2net bnx2x bnxt_en cxgb4 e1000e enic hns3 i40e iavf ice idpf igb igc ionic ixgbe "
    "mlx4_en mlx5_core nfp qede qlcnic r8169 sfc tg3"
)
_LINK = (
    rf"(?P<driver>[\w-]{{2,32}}) {PCI}(?: \([^)]{{1,40}}\))?(?: (?P<interface>[^ :]{{1,32}}))?"
    r"(?: \([^)]{1,40}\))?: (?:\w{1,16}: [^ ]{1,32} )?(?:NIC )?[Ll]ink (?:is )?"
)
_EFA = (
    rf"(?:(?P<driver>efa) {PCI}|infiniband|\(NULL ib_device\))(?: (?P<interface>rdmap\w{{1,24}}))?"
    r": [^\[]{0,60}?"
)
_EFA_SOURCE = "drivers/infiniband/hw/efa/efa_com.c"


def _hca(expression: str, reason: str, source: str) -> LineClass:
    return line(
        "hca_health",
        f"{_MLX5_SOURCE}/{source}",
        "mlx5_core",
        _MLX5 + expression,
        reason=reason,
    )


def _adapter(expression: str, reason: str, severity: str, source: str) -> LineClass:
    return line(
        "adapter_error",
        f"{_MLX5_SOURCE}/{source}",
        "mlx5_core",
        _MLX5 + expression,
        driver="mlx5_core",
        reason=reason,
        severity=severity,
    )


def _efa(expression: str, reason: str, severity: str = "fatal") -> LineClass:
    return line(
        "adapter_error",
        _EFA_SOURCE,
        "efa infiniband",
        _EFA + expression,
        driver="efa",
        reason=reason,
        severity=severity,
    )


# A register that the firmware keeps from this function, as from the limited ones of HGX B200 and
# from virtual ones: what reads their port counters, this agent too, makes the driver print it.
_REFUSED = r"(?!ACCESS_REG\(0x805\) .{0,60}?\bfailed, status bad (?:operation|parameter)\()"

CLASSES: tuple[LineClass, ...] = (
    line(
        "link_down",
        "drivers/net/ethernet: messages of each driver",
        _LINK_DRIVERS,
        _LINK + r"[Dd](?:own|OWN)\b",
    ),
    line(
        "link_up",
        "drivers/net/ethernet: messages of each driver",
        _LINK_DRIVERS,
        _LINK + r"[Uu][Pp]\b",
    ),
    line(
        "link_down",
        "drivers/infiniband/core/device.c: ib_dispatch_port_state_event",
        "",
        r"(?:infiniband )?(?P<interface>[A-Za-z]\w{1,31}): Port: (?P<port>\d{1,3}) Link "
        r"(?P<state>DOWN|INIT|ARMED)\b",
        needle=": Port: ",
        driver="ib_core",
    ),
    line(
        "link_up",
        "drivers/infiniband/core/device.c: ib_dispatch_port_state_event",
        "",
        r"(?:infiniband )?(?P<interface>[A-Za-z]\w{1,31}): Port: (?P<port>\d{1,3}) Link "
        r"(?P<state>ACTIVE)\b",
        needle=": Port: ",
        driver="ib_core",
    ),
    # A user may have a bond in a network namespace of its own, with a device that is named as the
    # host's, and the kernel prints no device with these lines: a claim. The driver of the port
    # reports the same by its address.
    line(
        "kernel_log_untrusted",
        "drivers/net/bonding/bond_main.c",
        "",
        r"[^ ]{1,32}: \(slave (?P<interface>[^)]{1,32})\): link status definitely down",
        needle="link status definitely",
        claims="link_down",
    ),
    line(
        "kernel_log_untrusted",
        "drivers/net/bonding/bond_main.c",
        "",
        r"[^ ]{1,32}: \(slave (?P<interface>[^)]{1,32})\): link status definitely up",
        needle="link status definitely",
        claims="link_up",
    ),
    _hca(r"device's health compromised", "health", "health.c"),
    _hca(r"Health issue observed, High temperature", "temperature", "health.c"),
    _hca(
        r"Health issue observed, (?:unrecoverable hardware error|HW fatal error)[^,]{0,40}, "
        r"severity\([0-4]\)",
        "fatal",
        "health.c",
    ),
    _hca(r"Health issue observed, [^,]{1,80}, severity\([0-3]\)", "health", "health.c"),
    _hca(
        r"(?!Health issue observed).{0,120}?\b(?:unrecoverable hardware error|HW fatal error)",
        "fatal",
        "health.c",
    ),
    _hca(r".{0,60}?Fatal error \d{1,4} detected", "fatal", "health.c"),
    _hca(
        r"(?:health recovery (?:flow aborted|failed)|device recovery failed|FW fatal error)",
        "fatal",
        "health.c",
    ),
    _hca(
        r"Port module event\[error\]: module \d{1,4}, (?:[^,]{1,40}, )?High [Tt]emp",
        "temperature",
        "events.c",
    ),
    _hca(r".{0,60}?(?:High temperature|temperature .{0,40}warning)", "temperature", "events.c"),
    _hca(r".{0,60}?insufficient power", "power", "events.c"),
    _hca(r"Port module event\[error\]", "cable", "events.c"),
    _adapter(
        r".{0,120}?\btimeout\. Will cause a leak", "command timeout", "fatal", "cmd.c: wait_func"
    ),
    _adapter(
        _REFUSED + r"[A-Z][A-Z0-9_]{2,60}\(0x[0-9a-f]{1,4}\) .{0,60}?\bfailed, status ",
        "command failed",
        "nonfatal",
        "cmd.c: mlx5_cmd_out_err",
    ),
    _adapter(r"TX timeout detected", "transmit timeout", "nonfatal", "en_main.c"),
    line(
        "adapter_recovered",
        f"{_MLX5_SOURCE}/health.c",
        "mlx5_core",
        _MLX5 + r"(?:health recovery succeeded|device recovered|Recovered after timeout)",
        driver="mlx5_core",
    ),
    # Of each adapter as its driver takes it on.
    line(
        "module_loaded",
        f"{_MLX5_SOURCE}/main.c",
        "mlx5_core",
        rf"mlx5_core {PCI}: firmware version: (?P<version>\d{{1,3}}\.\d{{1,4}}\.\d{{1,5}})",
        module="mlx5_core",
    ),
    line(
        "adapter_error",
        "net/sched/sch_generic.c: dev_watchdog",
        "",
        r"NETDEV WATCHDOG: (?P<interface>[^ ]{1,32}) \((?P<driver>[^)]{0,40})\): transmit queue "
        r"(?P<queue>\d{1,6}) timed out",
        needle="NETDEV WATCHDOG",
        reason="transmit timeout",
        severity="nonfatal",
    ),
    line(
        "adapter_error",
        "net/sched/sch_generic.c: dev_watchdog",
        "",
        rf"(?:(?P<driver>[^ :]{{1,32}}) {PCI} )?(?P<interface>[^ :]{{1,32}}): NETDEV WATCHDOG: "
        r"(?:CPU: \d{1,5}: )?transmit queue (?P<queue>\d{1,6}) timed out",
        needle="NETDEV WATCHDOG",
        reason="transmit timeout",
        severity="nonfatal",
    ),
    _efa(r"Admin queue is closed", "admin queue closed"),
    _efa(
        r"(?:didn't send any completion|Wait for completion \(polling\) timeout)", "no completion"
    ),
    _efa(r"didn't receive any MSI-X interrupt", "no interrupt"),
    _efa(r"(?:Device isn't ready|Reset indication didn't turn)", "device not ready"),
    _efa(r"Failed to (?:process|submit) (?:command|admin)", "command failed", "nonfatal"),
    line(
        "adapter_error",
        "drivers/net/ethernet/broadcom/bnxt/bnxt.c",
        "bnxt_en",
        rf"(?P<driver>bnxt_en) {PCI}(?: (?P<interface>[^ :]{{1,32}}))?: (?:.{{0,40}}?"
        r"(?P<reason>Firmware not responding|TX timeout detected|Firmware fatal reset|"
        r"Resp cmpl intr err|FW .{0,40}fatal|hwrm .{0,60}timeout))",
        severity="fatal",
    ),
    line(
        "adapter_error",
        "drivers/net/ethernet/amazon/ena/ena_netdev.c",
        "ena",
        rf"(?P<driver>ena) {PCI}(?: (?P<interface>[^ :]{{1,32}}))?: .{{0,40}}?"
        r"(?P<reason>Keep alive watchdog timeout|ENA admin queue is not in running state|"
        r"TX hasn't completed)",
        severity="fatal",
    ),
)
