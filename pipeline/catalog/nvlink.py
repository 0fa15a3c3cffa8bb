"""NVLinks of a GPU, one device per link, and what NVLink 5 counts over all links.

``read`` is in the words of pipeline/catalog/gpu.py.
"""

from __future__ import annotations

from pipeline.catalog.fields import Dcgm, Fact, Field, Kind, Metric
from pipeline.catalog.gpu_rows import ALL_LINKS, counter, gauge

KINDS = (
    Kind(
        "nvlink",
        (("gpu", "index"), ("uuid", "gpu_uuid"), ("link", "link")),
        "A link of a GPU, `<uuid>/<link>`.",
    ),
)

UP = Metric("tocsin_nvlink_up", "gauge", "1 while the link is active.")
SPEED = Metric("tocsin_nvlink_speed_bytes_per_second", "gauge", "Line rate of the link.")
DATA_RATE = Metric(
    "tocsin_nvlink_data_rate_bytes_per_second",
    "gauge",
    "Rate that is left for data after error correction.",
)
ERRORS = Metric(
    "tocsin_nvlink_errors_total", "counter", "Errors of the link by kind (before Blackwell)."
)
DATA_LINK = Metric(
    "tocsin_nvlink_data_link_errors_total",
    "counter",
    "Data-link errors of the link by kind (before Blackwell).",
)
BYTES = Metric(
    "tocsin_nvlink_bytes_total", "counter", "Bytes over the link without protocol, by direction."
)
RAW_BYTES = Metric(
    "tocsin_nvlink_raw_bytes_total", "counter", "Bytes over the link with protocol, by direction."
)

# Per-link and, with all links as scope, per-GPU quantities of NVLink 5: stem of the
# family's name, type, HELP.
_PORT = (
    ("packets_total", "counter", "Packets by direction (NVLink 5)."),
    ("port_bytes_total", "counter", "Bytes as the port counts them, by direction (NVLink 5)."),
    ("packet_errors_total", "counter", "Packets lost or damaged, by kind (NVLink 5)."),
    ("recovery_events_total", "counter", "Tries to bring a link back, by outcome (NVLink 5)."),
    ("symbol_errors_total", "counter", "Symbol errors before correction (NVLink 5)."),
    ("effective_errors_total", "counter", "Errors left after correction (NVLink 5)."),
    (
        "bit_error_ratio",
        "gauge",
        (
            "Bit error ratio as the port computes it, of raw bits, and of symbols before "
            "(symbol) and after (effective) correction."
        ),
    ),
    ("lane_bit_error_ratio", "gauge", "Raw bit error ratio by lane (NVLink 5)."),
    ("lane_errors_total", "counter", "Raw bit errors by lane (NVLink 5)."),
    (
        "plr_blocks_total",
        "counter",
        "Blocks of physical layer retransmission: transmitted, and retried (NVLink 5).",
    ),
    (
        "fec_codewords_total",
        "counter",
        "Codewords by the number of symbols that had to be corrected (NVLink 5).",
    ),
)

# Kinds of damage: nvml.h field ids 206 to 212, DCGM ids 1204 to 1210.
_DAMAGE: tuple[tuple[str, str, str], ...] = (
    ("malformed", "RX_MALFORMED_PACKET_ERRORS", "RX_PACKET_MALFORMED_TOTAL"),
    ("buffer_overrun", "RX_BUFFER_OVERRUN_ERRORS", "RX_PACKET_DROPPED_TOTAL"),
    ("receive", "RX_ERRORS", "RX_ERROR_TOTAL"),
    ("receive_remote", "RX_REMOTE_ERRORS", "RX_REMOTE_ERROR_TOTAL"),
    ("receive_general", "RX_GENERAL_ERRORS", "RX_GENERAL_ERROR_TOTAL"),
    ("local_integrity", "LOCAL_LINK_INTEGRITY_ERRORS", "INTEGRITY_ERROR_TOTAL"),
    ("transmit_discard", "TX_DISCARDS", "TX_DISCARD_TOTAL"),
)
_OUTCOMES = (
    ("successful", "LINK_RECOVERY_SUCCESSFUL_EVENTS", "RECOVERY_SUCCESSFUL_TOTAL"),
    ("failed", "LINK_RECOVERY_FAILED_EVENTS", "RECOVERY_FAILED_TOTAL"),
    ("any", "LINK_RECOVERY_EVENTS", "RECOVERY_EVENT_TOTAL"),
)


def _row(number: int, old: str, new: str, *, whole: bool = True) -> tuple[Dcgm, ...]:
    return (
        Dcgm(
            number,
            f"DCGM_FI_DEV_NVLINK_COUNT_{old}",
            f"DCGM_FI_DEV_NVLINK_{new}" if new else "",
            whole=whole,
        ),
    )


def port(kind: str, first: int, prefix: str, column: str, scope: str) -> tuple[Field, ...]:
    """The port counters of NVLink 5, of one link or summed over all links of a GPU
    (where DCGM shows them).
    """
    metrics = {stem: Metric(prefix + stem, type_, text) for stem, type_, text in _PORT}  # type: ignore[arg-type]
    rows: list[Field] = []

    def add(
        offset: int,
        name: str,
        stem: str,
        field: int,
        dcgm: tuple[Dcgm, ...],
        *labels: tuple[str, str],
        codec: str = "",
        older: int = 0,
    ) -> None:
        make = gauge if codec else counter
        read = " | ".join(f"field {n} scope {scope}{codec}" for n in (field, older) if n)
        shown = dcgm if kind == "gpu" else ()
        rows.append(
            make(
                first + offset,
                column + name,
                metrics[stem],
                read,
                *labels,
                kind=kind,
                profile="full",
                dcgm=shown,
            )
        )

    for i, (direction, short) in enumerate((("transmit", "TX"), ("receive", "RX"))):
        add(
            2 * i,
            f"{direction}_packets",
            "packets_total",
            201 + 2 * i,
            _row(1200 + 2 * i, f"{short}_PACKETS", f"{short}_PACKET_TOTAL"),
            ("direction", direction),
        )
        add(
            2 * i + 1,
            f"{direction}_bytes",
            "port_bytes_total",
            202 + 2 * i,
            _row(1201 + 2 * i, f"{short}_BYTES", f"{short}_BYTES_TOTAL"),
            ("direction", direction),
        )
    for i, (name, old, new) in enumerate(_DAMAGE):
        add(
            4 + i,
            f"{name}_errors",
            "packet_errors_total",
            206 + i,
            _row(1204 + i, old, new),
            ("kind", name),
        )
    for i, (name, old, new) in enumerate(_OUTCOMES):
        add(
            11 + i,
            f"{name}_recoveries",
            "recovery_events_total",
            213 + i,
            _row(1211 + i, old, new),
            ("outcome", name),
        )
    add(
        14,
        "effective_errors",
        "effective_errors_total",
        219,
        _row(1219, "EFFECTIVE_ERRORS", "EFFECTIVE_ERROR_TOTAL"),
    )
    add(
        15,
        "effective_bit_error_ratio",
        "bit_error_ratio",
        220,
        _row(1218, "EFFECTIVE_BER_FLOAT", "EFFECTIVE_BER_RATIO", whole=False),
        ("stage", "effective"),
        codec=" as bit_error_ratio",
    )
    add(
        16,
        "symbol_errors",
        "symbol_errors_total",
        221,
        _row(1214, "RX_SYMBOL_ERRORS", "RX_SYMBOL_ERROR_TOTAL"),
    )
    add(
        17,
        "symbol_bit_error_ratio",
        "bit_error_ratio",
        222,
        _row(1216, "SYMBOL_BER_FLOAT", "SYMBOL_BER_RATIO", whole=False),
        ("stage", "symbol"),
        codec=" as bit_error_ratio",
    )
    for i in range(16):
        add(
            20 + i,
            f"fec_{i}_codewords",
            "fec_codewords_total",
            235 + i,
            _row(1404 + i, f"FEC_HISTORY_{i}", f"FEC_HISTORY_{i}_TOTAL"),
            ("symbols", str(i)),
        )
    # Of driver 615; the deprecated ids of older ones have the same meaning.
    raw = " as bit_error_ratio"
    add(
        36,
        "raw_bit_error_ratio",
        "bit_error_ratio",
        293,
        (),
        ("stage", "raw"),
        codec=raw,
        older=218,
    )
    for lane in (0, 1):
        number = ("lane", str(lane))
        add(
            37 + lane,
            f"raw_bit_error_ratio_lane_{lane}",
            "lane_bit_error_ratio",
            291 + lane,
            (),
            number,
            codec=raw,
            older=216 + lane,
        )
        add(39 + lane, f"raw_errors_lane_{lane}", "lane_errors_total", 289 + lane, (), number)
    add(41, "transmit_blocks", "plr_blocks_total", 294, (), ("kind", "transmitted"))
    add(42, "retried_blocks", "plr_blocks_total", 295, (), ("kind", "retried"))
    add(43, "vl15_dropped", "packet_errors_total", 205, (), ("kind", "vl15_dropped"))
    return tuple(rows)


FIELDS: tuple[Field, ...] = (
    gauge(
        3001,
        "state",
        UP,
        "field 165 scope link | nvmlDeviceGetNvLinkState(link)",
        kind="nvlink",
        profile="full",
    ),
    gauge(
        3002,
        "speed_megabytes_per_second",
        SPEED,
        "field 164 scope link",
        kind="nvlink",
        times=1_000_000,
        profile="full",
    ),
    gauge(
        3003,
        "data_rate_megabytes_per_second",
        DATA_RATE,
        "field 296 scope link",
        kind="nvlink",
        times=1_000_000,
        profile="full",
    ),
    # nvmlNvLinkErrorCounter_t: replay 0, recovery 1, CRC of flits 2, CRC of data 3, ECC of data 4.
    *(
        counter(
            3010 + i,
            f"{name}_errors",
            ERRORS,
            f"nvmlDeviceGetNvLinkErrorCounter(link, {i})",
            ("kind", name),
            kind="nvlink",
            profile="full",
        )
        for i, name in enumerate(("replay", "recovery", "crc_flit", "crc_data", "ecc_data"))
    ),
    *(
        counter(
            3020 + i,
            f"data_link_{name}_errors",
            DATA_LINK,
            f"field {161 + i} scope link",
            ("kind", name),
            kind="nvlink",
            profile="full",
        )
        for i, name in enumerate(("replay", "recovery", "crc"))
    ),
    *(
        counter(
            3030 + i,
            f"{name}_kibibytes",
            metric,
            f"field {138 + i} scope link",
            ("direction", name.rpartition("_")[2]),
            kind="nvlink",
            times=1024,
            most=200_000_000,  # KiB/s; an NVLink 6 link moves at most 0.2 TB/s
            profile="full",
        )
        for i, (name, metric) in enumerate(
            (
                ("transmit", BYTES),
                ("receive", BYTES),
                ("raw_transmit", RAW_BYTES),
                ("raw_receive", RAW_BYTES),
            )
        )
    ),
    *port("nvlink", 3040, "tocsin_nvlink_", "", "link"),
)

PORT_TOTALS: tuple[Field, ...] = port("gpu", 1400, "tocsin_gpu_nvlink_", "nvlink_", str(ALL_LINKS))

FACTS: tuple[Fact, ...] = (
    Fact("index", "nvlink", "Index of the GPU.", info=False),
    Fact("gpu_uuid", "nvlink", "UUID of the GPU.", info=False),
    Fact("link", "nvlink", "Number of the link on its GPU, as NVML counts.", info=False),
    Fact("version", "nvlink", "NVLink version.", "nvmlDeviceGetNvLinkVersion(link)", info=False),
    Fact(
        "remote_type",
        "nvlink",
        "What the link ends at: 0 GPU, 1 NPU, 2 switch, 255 unknown.",
        "nvmlDeviceGetNvLinkRemoteDeviceType(link)",
        info=False,
    ),
    Fact(
        "remote_pci_bus_id",
        "nvlink",
        "PCI address of the other end.",
        "nvmlDeviceGetNvLinkRemotePciInfo(link).busId",
        info=False,
    ),
)
