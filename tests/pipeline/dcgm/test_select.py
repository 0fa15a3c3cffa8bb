"""dcgm-exporter's device option."""

from __future__ import annotations

import pytest

from pipeline.dcgm import SelectionError, parse_selection


@pytest.mark.parametrize(
    ("option", "gpu0", "gpu3", "with_instances", "first_instance"),
    [
        ("f", True, True, False, True),
        ("g", True, True, True, False),
        ("i", False, False, False, True),
        ("g+i", True, True, True, True),
        ("g:0", True, False, True, False),
        ("g:1-3", False, True, False, False),
        ("g:0,2-4", True, True, True, False),
        ("i:0", False, False, False, True),
        ("i:1", False, False, False, False),
        ("i:0.7", False, False, False, True),
        ("i+g", True, True, True, True),
        ("g:0+i", True, False, True, True),
        ("g+i:1", True, True, True, False),
        ("g:0,1+i:1", True, False, True, False),
        ("i:0+g:3", False, True, False, True),
    ],
)
def test_options_choose_devices(
    option: str, *, gpu0: bool, gpu3: bool, with_instances: bool, first_instance: bool
) -> None:
    """`f` is the GPU or its instances, `g` GPUs, `i` instances by place or as
    GPU.instance, `g+i` both, in either order and each with a range of its own.
    """
    selection = parse_selection(option)
    assert selection.shows_gpu("0", has_instances=False) is gpu0
    assert selection.shows_gpu("3", has_instances=False) is gpu3
    assert selection.shows_gpu("0", has_instances=True) is with_instances
    assert selection.shows_instance(0, "0", "7") is first_instance


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("x", "Invalid ranged device option 'x'"),
        ("", "Invalid ranged device option ''"),
        ("f:0", "no range can be specified with the flex option 'f'"),
        ("g:0-1-2", "range can only be '<number>-<number>'"),
        ("x:0", "the only valid options preceding ':<range>' are 'g' or 'i'"),
        ("g:a", "Invalid ranged device option 'a'"),
        ("g:", "Invalid ranged device option ''"),
        ("g:0-999999", "more than 4096 devices"),
        ("g:0.1", "Invalid ranged device option '0.1'"),
        ("g:4-2", "Invalid ranged device option '4-2': it ends before it begins"),
        ("i+g:4-2", "Invalid ranged device option '4-2': it ends before it begins"),
        ("g+g", "'g' can be given once, but found 'g+g'"),
        ("g:0+i+g:1", "'g' can be given once, but found 'g:0+i+g:1'"),
        ("f+i", "the flex option 'f' cannot be combined, but found 'f+i'"),
        ("g:0+f", "the flex option 'f' cannot be combined, but found 'g:0+f'"),
        ("g+", "Invalid ranged device option 'g+'"),
        ("g+x:0", "the only valid options preceding ':<range>' are 'g' or 'i', but found 'x'"),
    ],
)
def test_bad_options_are_refused(option: str, message: str) -> None:
    """In dcgm-exporter's words, and without building a list of a million devices."""
    with pytest.raises(SelectionError) as error:
        parse_selection(option)
    assert message in str(error.value)


def test_missing_gpus_are_named() -> None:
    """A GPU that is asked for and not there is named."""
    assert parse_selection("g:0,9,10").missing_gpus({"0"}) == [
        "couldn't find requested GPU ID '9'",
        "couldn't find requested GPU ID '10'",
    ]
