"""Pages of the detectors that look at InfiniBand and RoCE ports, and at the error correction of links."""

from __future__ import annotations

from collections.abc import Mapping

from detectors.infiniband.adapter import REASONS
from detectors.infiniband.errors import RULES, Rule
from detectors.infiniband.saturation import JUDGED
from detectors.pages.page import Default, Page, Shown

IBTA = "IBTA, InfiniBand Architecture Specification volume 1"
UFM = "NVIDIA, UFM: packet drop rate (PDR) plug-in"
PAGE_1954 = "E. S. Page, Continuous inspection schemes, Biometrika 41 (1954)"


def _port(*columns: str) -> tuple[Shown, ...]:
    return tuple(Shown("ib_port", column) for column in columns)


def _errors(rule: Rule) -> Default:
    value = f"{rule.least:g} in one window" if rule.windows == 1 else f"{rule.least:g} in {rule.windows} of 3 windows"
    per_packet = f", and more than {rule.ratio:g} of the packets" if rule.ratio else ""
    busy = "; only on ports that carry something" if rule.traffic else ""
    return Default(rule.counter, value + per_packet, f"{rule.severity}: {rule.words}{busy}")


PAGES: Mapping[str, Page] = {
    "ib_adapter": Page(
        "words of the mlx5 driver: health compromised, firmware fatal, port module errors",
        ("Linux, drivers/net/ethernet/mellanox/mlx5/core/health.c",),
        _port("state", "transmit_words"),
        "Reload the driver or reboot the node; an adapter that falls ill again is replaced.",
        "When its node boots, when the driver takes the adapter on anew, or after 126 minutes in which nothing more was said of it "
        "while its port was active.",
        ("ib",),
        limits=tuple(Default(reason, severity, words) for reason, (severity, _, words) in REASONS.items()),
    ),
    "ib_ber": Page(
        "errors per window ~ Poisson(rate x BER); S <- max(0, S + n ln(m1/m0) - (m1 - m0)) > h; page: 12 min above 1e-14 and 125 min above 1e-15",
        (UFM, f"{IBTA}: SymbolErrorCounter", PAGE_1954),
        _port("symbol_errors", "link_downed"),
        "Clean and reseat the connectors at both ends, then change the cable or transceiver.",
        "After five windows in a row, 25 minutes, in which the CUSUM is below a quarter of its limit.",
        ("ib-ber",),
    ),
    "ib_congestion": Page(
        "ln(1 + wait ticks per s) above its own past by 4 spreads at half of a switch's or node's ports",
        (f"{IBTA}: PortXmitWait",),
        _port("transmit_wait_ticks", "transmit_words"),
        "Nothing is broken: look at placement of jobs, routing and adaptive routing.",
        "At the end of the first minute in which fewer than three of the ports, or fewer than half of those that carry "
        "traffic, still wait.",
        ("congestion",),
    ),
    "ib_errors": Page(
        "errors in five minutes over the counter's own limit, by number or per packet (1e-12)",
        (f"{IBTA}, 16.1.3.5: PortCounters", UFM),
        _port("receive_errors", "local_link_integrity_errors", "transmit_discards"),
        "Read what the counter means in the finding; errors of the link are the cable's, discards the fabric's or the host's.",
        "After five windows in a row in which the port was read and no counter was over its limit.",
        ("ib",),
        limits=tuple(_errors(rule) for rule in RULES),
    ),
    "ib_flap": Page(
        "3 losses of the link within 6 h are a page, 5 within 7 days a ticket; one loss moves link_downed at both ends",
        ("gpud, InfiniBand flap check, github.com/leptonai/gpud",),
        _port("link_downed", "state"),
        "Reseat or change cable and transceiver; drain the node if a job died of it.",
        "After six hours without another loss (a ticket: after a day); then the count begins anew.",
        ("ib-flap",),
    ),
    "ib_link": Page(
        "state, width and rate against what the port and most of its role do; down for 240 s (a page after 600), gone for 40 s (most of a node: 600), slow for 30 s",
        (f"{IBTA}: PortInfo", "gpud, InfiniBand check, github.com/leptonai/gpud"),
        _port("state", "rate_bits_per_second", "width_lanes"),
        "Check the cable at both ends; where a leaf switch is named, the switch.",
        "After a minute at full width and rate, or in which nobody expects the port to be up; a port that is down also when "
        "it turns out to be disabled, and the other way round. A switch: when none of its ports has been down for four "
        "minutes. A page about a slow link ends after a week at the rate, which is normal then.",
        ("ib",),
    ),
    "ib_saturation": Page(
        "a counter without a 64-bit twin stands at its end",
        (f"{IBTA}, 16.1.3.5: PortCounters stick at their end",),
        _port("symbol_errors", "link_downed"),
        "Reset the counters (perfquery -R), or let the agent read the 64-bit ones.",
        "At the first reading in which none of these counters stands at its end.",
        ("observability",),
        limits=(Default("judged", ", ".join(JUDGED), "by these people are told of faults"),),
    ),
    "fec_tail": Page(
        "slope of ln(1 + codewords with >= 8 errors in the hour) over a day by Theil-Sen > ln 10 a day, and medians of its six parts "
        "each > ln 10 / 18 above the one before, 2 h in a row",
        (
            "P. K. Sen, Estimates of the regression coefficient based on Kendall's tau, JASA 63 (1968)",
            "NVIDIA, nvml.h: FEC history",
        ),
        (Shown("gpu", "nvlink_fec_8_codewords"), *_port("fec_corrected_blocks")),
        "Plan a change of this link; watch whether symbol errors follow.",
        "After 24 hours at a known slope that is lower, or with next to nothing counted, and none with a higher one between them.",
        ("nvlink",),
    ),
}
