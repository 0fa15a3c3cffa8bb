"""NVLinks that are down or make errors: from what is a fault, whose it is, and when it is over."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from detectors.nvlink import NvLink
from pipeline.finding import Finding
from pipeline.frame import Device
from tests.detectors.feed import Feed, a_gpu, open_findings, updates

LINKS = 18
DOWN, NONE_UP, REPLAYS, CRC, ERRORS = (
    "nvlink/link_down",
    "nvlink/none_up",
    "nvlink/replays",
    "nvlink/crc",
    "nvlink/bit_errors",
)
MINUTE, HOUR = 60.0, 3600.0
Values = dict[str, float | list[float | None] | None]


def of_gpu_0(value: float | None, others: float | None) -> list[float | None]:
    """A value of GPU 0 and that of the seven others."""
    return [value, *[others] * 7]


def up(links: float | None = LINKS) -> Values:
    """How many links of GPU 0 are up; those of the others all are."""
    return {"nvlinks_up": of_gpu_0(links, LINKS)}


@pytest.fixture
def node() -> Feed:
    """Eight GPUs whose links have been up for five minutes."""
    feed = Feed(NvLink())
    assert feed.run(300, **up()) == []
    return feed


def a_link(gpu: int, link: int) -> Device:
    """One NVLink of a GPU of the node."""
    uuid = a_gpu("n1", gpu).id
    return Device(
        "n1", "nvlink", f"{uuid}/{link}", {"gpu_uuid": uuid, "index": str(gpu), "link": str(link)}
    )


# Down.


def test_a_link_that_stays_down_is_a_page_within_a_minute(node: Feed) -> None:
    """Of the GPU, with how many it should be; over as soon as it is back."""
    findings = node.run(MINUTE, **up(LINKS - 1))
    assert open_findings(findings) == [("gpu", "GPU-n1-0", DOWN, "page")]
    assert "17 of 18 links up" in findings[0].evidence[0]
    assert [f.phase for f in node.run(20, **up())] == ["cleared"]


def test_a_link_that_trains_anew_is_silent(node: Feed) -> None:
    """Twenty seconds, as after a reset of the GPU."""
    assert [*node.run(20, **up(0)), *node.run(MINUTE, **up())] == []


def test_a_link_that_was_down_before_the_agent_came_is_missed_by_comparison_with_the_peers() -> (
    None
):
    """It was never seen up; seven GPUs of the same node and model have one more: a ticket, as
    nobody knows whether it ever was.
    """
    assert open_findings(Feed(NvLink()).run(10 * MINUTE, **up(LINKS - 1))) == [
        ("gpu", "GPU-n1-0", DOWN, "ticket")
    ]


@pytest.mark.slow
def test_gpus_that_never_had_a_bridge_wake_nobody() -> None:
    """Three pairs of boards are bridged, two boards are not."""
    findings = Feed(NvLink()).run(HOUR, nvlinks_up=[12.0] * 6 + [0.0] * 2)
    assert {f.severity for f in findings} == {"ticket"}


@pytest.mark.slow
def test_gpus_that_all_have_few_links_are_built_so() -> None:
    """A board with twelve links a GPU is no fault of eight."""
    assert Feed(NvLink()).run(HOUR, nvlinks_up=12) == []


@pytest.mark.slow
def test_a_gpu_in_mig_mode_has_no_links(node: Feed) -> None:
    """An A100 that is split switches them off; one that falls when it is whole again is a page."""
    assert node.run(HOUR, **up(0), mig_mode_current=of_gpu_0(1, 0)) == []
    assert open_findings(node.run(MINUTE, **up(LINKS - 1), mig_mode_current=0)) == [
        ("gpu", "GPU-n1-0", DOWN, "page")
    ]


def boots(node: Feed) -> None:
    """The node is away for five minutes."""
    node.boot = "boot-2"
    node.clock.advance(300)


@pytest.mark.slow
@pytest.mark.parametrize("begins", [boots, Feed.restart_counters], ids=["boot", "driver"])
def test_links_come_up_some_minutes_after_a_boot_or_driver_load(
    node: Feed, begins: Callable[[Feed], None]
) -> None:
    """Fabric Manager starts after the driver."""
    begins(node)
    assert [*node.run(4 * MINUTE, nvlinks_up=0), *node.run(HOUR, **up())] == []


@pytest.mark.parametrize("begins", [boots, Feed.restart_counters], ids=["boot", "driver"])
def test_a_link_that_does_not_come_back_is_a_page(
    node: Feed, begins: Callable[[Feed], None]
) -> None:
    """Of one GPU, while its peers have as many as it had."""
    begins(node)
    assert open_findings(node.run(10 * MINUTE, **up(LINKS - 1))) == [
        ("gpu", "GPU-n1-0", DOWN, "page")
    ]


@pytest.mark.slow
@pytest.mark.parametrize("begins", [boots, Feed.restart_counters], ids=["boot", "driver"])
def test_no_link_of_a_node_after_a_boot_is_one_ticket_of_the_node(
    node: Feed, begins: Callable[[Feed], None]
) -> None:
    """Fabric Manager never started, or an option of the driver switched them off: over
    with the first that is up.
    """
    begins(node)
    assert updates(node.run(HOUR, nvlinks_up=0)) == [("node", "n1", NONE_UP, "ticket", "onset")]
    findings = [*node.run(4 * MINUTE, **up(0)), *node.run(HOUR, **up())]  # one GPU after the other
    assert updates(findings) == [("node", "n1", NONE_UP, "ticket", "cleared")]
    assert open_findings(node.run(MINUTE, **up(LINKS - 1))) == [("gpu", "GPU-n1-0", DOWN, "page")]


@pytest.mark.slow
def test_a_gpu_that_stays_without_links_when_its_node_has_them_again_is_a_page(node: Feed) -> None:
    """It had them before Fabric Manager failed to start: nothing is forgotten."""
    boots(node)
    node.run(HOUR, nvlinks_up=0)
    assert updates(node.run(HOUR, **up(0)))[1:] == [("gpu", "GPU-n1-0", DOWN, "page", "onset")]


@pytest.mark.slow
def test_a_node_that_never_had_links_is_silent() -> None:
    """Boards without bridges, which boot."""
    node = Feed(NvLink())
    node.run(300, nvlinks_up=0)
    boots(node)
    assert [*node.findings, *node.run(HOUR, nvlinks_up=0)] == []


@pytest.mark.slow
@pytest.mark.parametrize("links", [LINKS - 2, 0])
def test_a_dead_switch_is_not_cured_by_a_boot(node: Feed, links: float) -> None:
    """It hits all GPUs of the node alike: none of the pages ends while the links stay down."""
    pages = open_findings(node.run(MINUTE, nvlinks_up=links))
    assert [severity for *_, severity in pages] == ["page"] * 8
    boots(node)
    assert node.run(HOUR, nvlinks_up=links) == []
    assert [f.phase for f in node.run(20, **up())] == ["cleared"] * 8


def test_links_that_all_gpus_lack_after_a_boot_are_pages(node: Feed) -> None:
    """A switch that died with the boot: some came up, so nobody switched them off."""
    boots(node)
    assert [
        severity for *_, severity in open_findings(node.run(10 * MINUTE, nvlinks_up=LINKS - 2))
    ] == ["page"] * 8


@pytest.mark.slow
@pytest.mark.parametrize("gpus", [1, 2, 4])
def test_a_link_that_is_down_in_a_small_node_is_not_cured_by_a_boot(gpus: int) -> None:
    """Too few peers to ask, or none."""
    node, lost = Feed(NvLink(), gpus=gpus), [LINKS - 1.0, *[float(LINKS)] * (gpus - 1)]
    node.run(300, nvlinks_up=LINKS)
    assert open_findings(node.run(MINUTE, nvlinks_up=lost)) == [("gpu", "GPU-n1-0", DOWN, "page")]
    boots(node)
    assert node.run(HOUR, nvlinks_up=lost) == []


@pytest.mark.slow
def test_links_that_are_not_read_are_not_down(node: Feed) -> None:
    """An hour without an answer."""
    assert node.run(HOUR, nvlinks_up=None) == []


@pytest.mark.slow
def test_maintenance_keeps_a_links_fall_silent(node: Feed) -> None:
    """The board is in maintenance."""
    node.event(Device("n1", "node", "n1"), "maintenance_started", reason="tray")
    assert node.run(HOUR, **up(0)) == []


# Errors.


def run_minutes(node: Feed, minutes: int, **values: float | list[float | None]) -> list[Finding]:
    """So many minutes; counters grow by so much in the first frame of each."""
    findings: list[Finding] = []
    for _ in range(minutes):
        findings += node.once(**up(), **values)
        quiet = {name: 0 if isinstance(v, int | float) else [0.0] * 8 for name, v in values.items()}
        for _ in range(5):
            findings += node.once(**up(), **quiet)
    return findings


@pytest.mark.slow
@pytest.mark.parametrize(
    "counter",
    ["replay_errors", "recovery_errors", "data_link_replay_errors", "data_link_recovery_errors"],
)
def test_replays_in_more_than_half_of_half_an_hour_are_a_ticket(node: Feed, counter: str) -> None:
    """The sixteenth minute of thirty with one, whichever kind; how many there were
    in a minute says nothing.
    """
    name = f"nvlink_{counter}"
    assert run_minutes(node, 15, **{name: of_gpu_0(1000, 0)}) == []
    findings = run_minutes(node, 3, **{name: of_gpu_0(1, 0)})
    assert open_findings(findings) == [("gpu", "GPU-n1-0", REPLAYS, "ticket")]


@pytest.mark.slow
def test_a_replay_now_and_then_is_normal(node: Feed) -> None:
    """Every other minute for three hours."""
    for _ in range(90):
        findings = [
            *run_minutes(node, 1, nvlink_replay_errors=1),
            *run_minutes(node, 1, nvlink_replay_errors=0),
        ]
        assert findings == []


@pytest.mark.slow
def test_replays_end_after_five_quiet_minutes(node: Feed) -> None:
    """And rest for an hour before they are reported again."""
    run_minutes(node, 20, nvlink_replay_errors=of_gpu_0(1, 0))
    assert [f.phase for f in run_minutes(node, 10, nvlink_replay_errors=0)] == ["cleared"]
    assert run_minutes(node, 20, nvlink_replay_errors=of_gpu_0(1, 0)) == []


@pytest.mark.parametrize(
    ("per_second", "expected"), [(120.0, [("gpu", "GPU-n1-0", CRC, "ticket")]), (80.0, [])]
)
def test_crc_errors_count_from_a_hundred_a_second(
    node: Feed, per_second: float, expected: list[tuple[str, str, str, str]]
) -> None:
    """DCGM's limit, in two of three minutes: fewer are what the link's own retries are for."""
    assert (
        open_findings(node.run(5 * MINUTE, **up(), nvlink_crc_flit_errors=of_gpu_0(per_second, 0)))
        == expected
    )


def test_one_minute_of_crc_errors_is_silent(node: Feed) -> None:
    """A burst."""
    findings = node.run(MINUTE, **up(), nvlink_crc_data_errors=of_gpu_0(1e6, 0))
    assert [*findings, *node.run(5 * MINUTE, **up(), nvlink_crc_data_errors=0)] == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("ber", "expected"),
    [(5e-12, [("gpu", "GPU-n1-0", ERRORS, "ticket")]), (5e-13, []), (1.5e-254, [])],
)
def test_an_effective_bit_error_rate_above_1e_12_is_a_ticket(
    node: Feed, ber: float, expected: list[tuple[str, str, str, str]]
) -> None:
    """NVLink 5; 1.5e-254 is how the register spells zero."""
    assert (
        open_findings(
            node.run(5 * MINUTE, **up(), nvlink_effective_bit_error_ratio=of_gpu_0(ber, 1.5e-254))
        )
        == expected
    )


@pytest.mark.slow
def test_counters_that_begin_anew_are_no_errors(node: Feed) -> None:
    """The driver was loaded again: five hundred become nothing."""
    run_minutes(node, 3, nvlink_replay_errors=0, nvlink_crc_flit_errors=0)
    node.restart_counters()
    assert run_minutes(node, 30, nvlink_replay_errors=0, nvlink_crc_flit_errors=0) == []


# Link by link.


def test_links_that_are_read_one_by_one_are_named_one_by_one() -> None:
    """The link itself, by its number, and not its GPU beside it."""
    links = [a_link(0, n) for n in range(LINKS)]
    feed = Feed(NvLink(), gpus=links)
    feed.run(300, state=1)
    findings = feed.run(MINUTE, state=[1.0] * 5 + [0.0] + [1.0] * 12)
    assert open_findings(findings) == [("nvlink", links[5].id, DOWN, "page")]
    assert "NVLink 5 of GPU 0" in findings[0].summary


@pytest.mark.parametrize("lost", [1, LINKS])
def test_links_that_are_read_one_by_one_are_expected_after_a_boot_if_any_came_up(lost: int) -> None:
    """One that does not come back is a page, all of them may be a choice: a ticket of the node."""
    links = [a_link(0, n) for n in range(LINKS)]
    feed = Feed(NvLink(), gpus=links)
    feed.run(300, state=1)
    boots(feed)
    findings = feed.run(10 * MINUTE, state=[0.0] * lost + [1.0] * (LINKS - lost))
    assert open_findings(findings) == [
        ("nvlink", links[0].id, DOWN, "page") if lost == 1 else ("node", "n1", NONE_UP, "ticket")
    ]


@pytest.mark.slow
@pytest.mark.parametrize("lost", [0, 1, LINKS])
def test_links_that_are_read_one_by_one_have_some_minutes_after_a_driver_load(lost: int) -> None:
    """The new epoch is in the frames of GPUs; what does not come up in it
    is reported as after a boot.
    """
    detector = NvLink()
    links, gpus = Feed(detector, gpus=[a_link(0, n) for n in range(LINKS)]), Feed(detector, gpus=1)

    def read(minutes: int, down: int) -> list[Finding]:
        findings: list[Finding] = []
        for _ in range(6 * minutes):
            findings += links.once(state=[0.0] * down + [1.0] * (LINKS - down))
            findings += gpus.once(nvlinks_up=LINKS - down)
        return findings

    assert read(5, 0) == []
    gpus.restart_counters()
    assert read(4, LINKS) == []
    page, ticket = ("nvlink", links.gpus[0].id, DOWN, "page"), ("node", "n1", NONE_UP, "ticket")
    assert open_findings(read(6, lost)) == {0: [], 1: [page], LINKS: [ticket]}[lost]


def test_links_of_a_gpu_in_mig_mode_that_are_read_one_by_one_are_not_down() -> None:
    """Its mode is in the frames of GPUs."""
    detector = NvLink()
    links, gpus = (
        Feed(detector, gpus=[a_link(gpu, n) for gpu in range(2) for n in range(LINKS)]),
        Feed(detector),
    )
    for split in (0, 1):
        for _ in range(30):
            gpus.once(**up(LINKS * (1 - split)), mig_mode_current=of_gpu_0(split, 0))
            links.once(state=[float(1 - split)] * LINKS + [1.0] * LINKS)
    assert links.findings == gpus.findings == []


def test_a_gpu_whose_links_are_read_one_by_one_is_left_alone() -> None:
    """Both kinds of frames reach the detector; the sum over the GPU's
    links is no second finding.
    """
    detector = NvLink()
    links, gpus = Feed(detector, gpus=[a_link(0, n) for n in range(LINKS)]), Feed(detector)
    for _ in range(30):
        links.once(state=1)
        gpus.once(**up())
    for _ in range(30):
        links.once(state=[0.0] + [1.0] * 17)
        gpus.once(**up(LINKS - 1))
    assert updates(links.findings) == [("nvlink", links.gpus[0].id, DOWN, "page", "onset")]
    assert gpus.findings == []


@pytest.mark.slow
def test_a_link_is_told_once_and_keeps_its_name(node: Feed) -> None:
    """An hour down is one finding with one id."""
    findings = node.run(HOUR, **up(LINKS - 2))
    assert len(findings) == 1
    assert [f.id for f in node.run(20, **up())] == [replace(findings[0], phase="cleared").id]
