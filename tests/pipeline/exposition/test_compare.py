"""Two pages side by side: what the second lacks is named, what only looks different is not."""

from __future__ import annotations

import pytest

from pipeline.exposition.compare import differences, parse

PAGE = """\
# HELP DCGM_FI_DEV_POWER_USAGE Power draw (in W).
# TYPE DCGM_FI_DEV_POWER_USAGE gauge
DCGM_FI_DEV_POWER_USAGE{gpu="0",UUID="GPU-a",Hostname="n1"} 300.5
DCGM_FI_DEV_POWER_USAGE{gpu="1",UUID="GPU-b",Hostname="n1"} 310.5
"""


def said(theirs: str, ours: str, *ignore: str) -> list[tuple[str, str]]:
    """Kind and name of each difference."""
    return [(d.kind, d.name) for d in differences(parse(theirs), parse(ours), ignore=ignore)]


def test_equal_pages_have_no_difference() -> None:
    """Nor have pages of two instants: values move, units do not."""
    assert said(PAGE, PAGE) == []
    assert said(PAGE, PAGE.replace("300.5", "402.0")) == []


def test_a_family_that_is_not_there_is_missing() -> None:
    """Its rules would match no series and never fire."""
    assert said(PAGE + 'DCGM_FI_DEV_GPU_TEMP{gpu="0"} 40\n', PAGE) == [
        ("missing", "DCGM_FI_DEV_GPU_TEMP")
    ]


def test_a_device_that_is_not_there_is_missing() -> None:
    """One GPU of two."""
    assert said(PAGE, "".join(PAGE.splitlines(keepends=True)[:3])) == [
        ("missing", "DCGM_FI_DEV_POWER_USAGE")
    ]


def test_another_spelling_of_a_label_is_told_unless_ignored() -> None:
    """Hostname against hostname breaks a join."""
    ours = PAGE.replace("Hostname", "hostname")
    assert said(PAGE, ours) == [("labels", "DCGM_FI_DEV_POWER_USAGE")]
    assert said(PAGE, ours, "Hostname", "hostname") == []


def test_another_unit_is_told_by_its_factor() -> None:
    """Milliwatts in the place of watts."""
    ours = PAGE.replace("300.5", "300500").replace("310.5", "310500")
    (one,) = differences(parse(PAGE), parse(ours))
    assert (one.kind, "1000 times" in one.text) == ("unit", True)


def test_a_line_with_a_stray_quote_costs_only_itself() -> None:
    """dcgm-exporter before 4.8.3 escapes nothing."""
    broken = PAGE + 'DCGM_FI_DEV_GPU_TEMP{gpu="0",pod="a"b"} 40\n'
    assert parse(broken).unreadable == ['DCGM_FI_DEV_GPU_TEMP{gpu="0",pod="a"b"} 40']
    assert said(broken, PAGE) == []


@pytest.mark.parametrize("odd", ["\r", "\x0b", "\x85", "\u2028"])
def test_a_label_may_have_characters_that_end_a_line_elsewhere(odd: str) -> None:
    """Only a newline ends a line of the text format; one with a carriage return before it too."""
    page = parse(f'up{{pod="a{odd}b"}} 1\r\nup{{pod="c"}} 2\n')
    values = {dict(labels)["pod"]: value for labels, value in page.samples["up"].items()}
    assert (values, page.unreadable) == ({f"a{odd}b": 1.0, "c": 2.0}, [])


def test_our_own_series_are_not_a_difference_but_new_dcgm_ones_are_told() -> None:
    """tocsin_* is more, not less."""
    assert said(PAGE, PAGE + 'tocsin_gpu_visible 8\nDCGM_FI_DEV_GPU_TEMP{gpu="0"} 40\n') == [
        ("added", "DCGM_FI_DEV_GPU_TEMP")
    ]


MIG = """\
DCGM_FI_DEV_FB_USED{gpu="0",UUID="GPU-a",GPU_I_PROFILE="1g.10gb",GPU_I_ID="1",Hostname="n1"} 40
DCGM_FI_DEV_FB_USED{gpu="0",UUID="GPU-a",GPU_I_PROFILE="1g.10gb",GPU_I_ID="2",Hostname="n1"} 7
"""
LINKS = """\
DCGM_FI_DEV_NVLINK_GET_STATE{nvlink="1",gpu="0",gpu_uuid="GPU-a",Hostname="n1"} 1
DCGM_FI_DEV_NVLINK_GET_STATE{nvlink="2",gpu="0",gpu_uuid="GPU-a",Hostname="n1"} 1
"""


def texts(theirs: str, ours: str, *ignore: str) -> list[str]:
    """What is said of each difference."""
    return [d.text for d in differences(parse(theirs), parse(ours), ignore=ignore)]


def test_a_lost_instance_is_missing_though_its_neighbour_has_the_same_uuid() -> None:
    """MIG rows carry the UUID of their GPU: the instance is part of the identity."""
    first = MIG.splitlines(keepends=True)[0]
    assert said(MIG, MIG) == []
    assert texts(MIG, first) == ['no series with UUID="GPU-a", GPU_I_ID="2"']
    assert said(MIG, first, "GPU_I_ID") == []


def test_units_are_compared_instance_by_instance() -> None:
    """The largest instance of a GPU does not hide that of the others."""
    third = MIG.splitlines(keepends=True)[1].replace('GPU_I_ID="2"', 'GPU_I_ID="3"')
    theirs = MIG + third
    assert said(theirs, theirs.replace("} 7", "} 7000")) == [("unit", "DCGM_FI_DEV_FB_USED")]


def test_a_lost_link_is_missing() -> None:
    """Rows of links carry the UUID of their GPU as well."""
    assert said(LINKS, LINKS) == []
    assert texts(LINKS, LINKS.splitlines(keepends=True)[1]) == [
        'no series with gpu_uuid="GPU-a", nvlink="1"'
    ]


def test_another_index_for_the_same_gpu_is_told() -> None:
    """A rule with gpu="1" would watch another GPU."""
    assert texts(PAGE, PAGE.replace('gpu="1"', 'gpu="7"')) == [
        'gpu="7" instead of "1" for UUID="GPU-b"'
    ]


def test_a_label_that_differs_for_several_devices_is_one_line() -> None:
    """A host under another name is one finding per family, unless it is ignored."""
    ours = PAGE.replace('"n1"', '"n1.example"')
    (one,) = differences(parse(PAGE), parse(ours))
    assert (one.kind, one.text) == (
        "labels",
        'Hostname="n1.example" instead of "n1" for UUID="GPU-a" and 1 more',
    )
    assert said(PAGE, ours, "Hostname") == []


def test_another_profile_of_an_instance_is_told() -> None:
    """The same number may be another instance after a reconfiguration."""
    assert texts(MIG, MIG.replace('1g.10gb",GPU_I_ID="2"', '2g.20gb",GPU_I_ID="2"')) == [
        'GPU_I_PROFILE="2g.20gb" instead of "1g.10gb" for UUID="GPU-a", GPU_I_ID="2"'
    ]


def test_pods_may_differ_in_value() -> None:
    """They come and go between two scrapes; a copy per job is no other device."""
    pods = PAGE.replace('Hostname="n1"', 'Hostname="n1",pod="a"')
    twice = pods + pods.replace('pod="a"', 'pod="b"').partition("gauge\n")[2]
    assert said(twice, pods) == []
    assert said(pods, pods.replace('pod="a"', 'pod="c"')) == []
