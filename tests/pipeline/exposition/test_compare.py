"""Two pages side by side: what the second lacks is named, what only looks different is not."""

from __future__ import annotations

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


def test_our_own_series_are_not_a_difference_but_new_dcgm_ones_are_told() -> None:
    """tocsin_* is more, not less."""
    assert said(PAGE, PAGE + 'tocsin_gpu_visible 8\nDCGM_FI_DEV_GPU_TEMP{gpu="0"} 40\n') == [
        ("added", "DCGM_FI_DEV_GPU_TEMP")
    ]
