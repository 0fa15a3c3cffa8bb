"""Index of the known cases: how programs before this one went wrong, and which
tests hold ours to do better.

Tests lie where the part is.
"""

from __future__ import annotations

from typing import NamedTuple


class Known(NamedTuple):
    """A known mistake, in our own words, and the tests that would fail if we made it: files below
    tests/, and functions in them.
    """

    whose: str
    mistake: str
    tests: tuple[str, ...]


COUNTS = "pipeline/xid/test_counts.py::"
LINES = "collector/sources/kmsg/test_xid_lines.py::"
RING = "collector/sources/kmsg/test_source.py::"
PORTS = "collector/sources/infiniband/test_source.py::"
QUERY = "collector/sources/infiniband/test_perfquery.py::"
XID = "detectors/xid/test_detector.py::"
BER = "detectors/infiniband/test_ber.py::"
SATURATION = "detectors/infiniband/test_saturation.py::"
FLAP = "detectors/infiniband/test_flap.py::"
THROTTLE = "detectors/test_throttle.py::"
LOG = "detectors/regressions/test_kernel_log.py::"
COUNTERS = "detectors/regressions/test_counters.py::"
FABRIC = "detectors/regressions/test_fabric.py::"
INCIDENTS = "detectors/regressions/test_incidents.py::"

# Lines of the driver.
KERNEL_LOG = (
    Known(
        "dcgm-exporter",
        "its gauge holds the last code: the same code again does not show, and it outlives resets",
        (
            COUNTS + "test_dcgm_exporter_gauge_hides_repeats_we_count_them",
            COUNTS + "test_counts_survive_restart_and_reboot",
            LOG + "test_a_code_that_repeats_is_counted_though_the_last_value_does_not_change",
        ),
    ),
    Known(
        "rules over that gauge",
        "they take the increase of a code: 94 and then 13 looks like a counter that began again",
        (
            LOG + "test_94_then_13_are_two_codes_and_no_reset_of_a_counter",
            XID + "test_31_twice_counts_two",
        ),
    ),
    Known(
        "DCGM",
        "a serious code stays until its daemon restarts, whatever was repaired",
        (
            LOG + "test_a_gpu_is_well_again_after_its_reset_and_a_clean_day",
            COUNTS + "test_dcgm_xid_sticks_until_restart_ours_leaves_with_the_boot",
            XID + "test_a_finding_ends_after_a_clean_day",
        ),
    ),
    Known(
        "DCGM",
        "its words for a dozen codes say something else than NVIDIA's catalogue",
        (
            "pipeline/xid/test_table.py::test_descriptions_that_dcgm_gets_wrong",
            XID + "test_codes_mean_what_nvidias_catalogue_says",
        ),
    ),
    Known(
        "DCGM",
        "after one GPU's 119 nobody asks the others any more",
        (LOG + "test_an_xid_that_stops_one_gpus_answers_blinds_nobody_to_the_others",),
    ),
    Known(
        "gpud",
        "lines that name a MIG instance are not recognised",
        (
            LINES + "test_gpud_misses_mig_xids_ours_are_read",
            XID + "test_a_mig_line_is_judged_like_any_other",
        ),
    ),
    Known(
        "gpud",
        "63 and 64 are left out in one of two paths through the program",
        (LOG + "test_a_code_is_as_serious_whoever_reports_it",),
    ),
    Known(
        "dcgm-exporter",
        "with MIG a code of the whole GPU falls on something that has no rows",
        (COUNTS + "test_mig_xid_counts_on_the_whole_gpu",),
    ),
    Known(
        "GCM",
        "it reads the whole ring, so that what happened last month is critical today",
        (
            COUNTS + "test_gcm_scans_the_whole_ring_old_xids_are_history",
            RING + "test_gcm_old_xids_are_not_news",
            XID + "test_last_months_xid_is_silent_at_start",
        ),
    ),
    Known(
        "GCM",
        "it wakes people for contained and informative codes and leaves 109 out",
        (
            "pipeline/xid/test_table.py::test_levels_that_other_tools_get_wrong",
            XID + "test_levels_that_other_tools_get_wrong",
        ),
    ),
    Known(
        "Moneo",
        "two digits of a code are read: 119 is taken for 11",
        (
            LINES + "test_moneo_reads_two_digits_ours_reads_all",
            COUNTS + "test_moneo_two_digit_pattern_codes_from_100_up_are_their_own",
            XID + "test_119_is_not_11",
        ),
    ),
    Known(
        "NVSentinel",
        "the teardown of a program, code 45, is counted as broken hardware",
        (
            XID + "test_45_never_pages",
            LINES + "test_preemptive_removal_names_its_cause",
            INCIDENTS + "test_a_crashed_job_flags_no_node",
        ),
    ),
    Known(
        "most",
        "a GPU that is lost and what the driver prints of it without its address are two faults",
        (INCIDENTS + "test_lines_of_the_driver_that_name_no_gpu_are_of_the_one_that_is_gone",),
    ),
    Known(
        "NVSentinel",
        "one job that crashes in a rack of 72 GPUs condemns every node",
        (
            INCIDENTS + "test_a_rack_of_72_gpus_whose_job_crashed_is_one_incident",
            XID + "test_an_nvlink_domain_that_complains_is_one_finding",
        ),
    ),
    Known(
        "NVSentinel",
        "hundreds of thousands of equal lines are as many events",
        (
            RING + "test_flood_of_800000_lines_is_counted_to_the_last",
            RING + "test_flood_costs_bounded_memory",
            XID + "test_eight_hundred_thousand_lines_are_one_finding_in_bounded_memory",
            INCIDENTS + "test_thousands_of_lines_about_one_gpu_are_one_incident_of_it",
        ),
    ),
)

# Counters and states of GPUs.
GPUS = (
    Known(
        "DCGM",
        (
            "it compares counters by the size of their difference: a reload to zero "
            "is a burst of errors"
        ),
        (
            COUNTERS + "test_a_driver_reload_from_a_large_count_to_nothing_is_no_increase",
            THROTTLE + "test_a_reload_of_the_driver_is_no_slowdown",
        ),
    ),
    Known(
        "DCGM",
        "any moment at the power or heat limit within a minute is a warning",
        (
            THROTTLE + "test_a_power_capped_cluster_is_silent",
            THROTTLE + "test_one_long_pulse_is_no_fault",
        ),
    ),
    Known(
        "DCGM",
        "ten corrected errors are its limit, which its own source calls a dummy",
        (COUNTERS + "test_fifty_corrected_errors_in_a_day_are_no_alarm",),
    ),
    Known(
        "gpud",
        "rows that were remapped for corrected errors are shown as uncorrectable ones",
        (
            COUNTERS + "test_remapped_rows_of_one_cause_never_show_as_the_other",
            "detectors/ecc/test_detector.py::test_correctable_and_uncorrectable_remaps_stay_apart",
        ),
    ),
    Known(
        "gpud",
        "memory errors never change the health of a GPU",
        (
            (
                "detectors/ecc/"
                "test_detector.py::test_an_uncorrectable_error_without_an_xid_pages_after_a_minute"
            ),
            INCIDENTS + "test_a_gpu_whose_memory_wears_out_is_a_predicted_failure",
        ),
    ),
    Known(
        "GCM, healthagent",
        "limits are of sums over a lifetime: an old board or port begins as faulty",
        (
            COUNTERS + "test_an_old_board_is_not_born_sick",
            "detectors/ecc/test_detector.py::test_a_lifetime_of_errors_is_silent_at_start",
            FLAP + "test_counts_of_an_old_life_are_silent",
        ),
    ),
    Known(
        "OCI",
        (
            "nanoseconds are divided by the wrong power of ten: 60 ms in five minutes "
            "become a fifth of the time"
        ),
        (THROTTLE + "test_60_ms_in_five_minutes_are_a_duty_of_two_in_ten_thousand",),
    ),
    Known(
        "sichek",
        "a GPU that draws few watts is called hung, as is each that waits for the hung one",
        (
            (
                "detectors/hang/"
                "test_hang.py::test_a_rank_that_does_nothing_while_all_others_wait_is_paged_within_five_minutes"
            ),
            "detectors/hang/test_hang.py::test_low_power_work_is_no_wait",
        ),
    ),
    Known(
        "NCCL's RAS",
        (
            "it says that all is well while the watchdog of the job fires: the counts are "
            "equal, and do not move"
        ),
        (
            "detectors/nccl/test_judge.py::test_equal_counts_that_stand_still_stay_a_suspicion",
            "detectors/nccl/test_judge.py::test_all_in_flight_names_the_group_and_no_rank",
        ),
    ),
    Known(
        "dcgm-exporter, DCGM",
        "a lost GPU takes its series with it, and no rule can fire",
        (
            "collector/sources/nvml/test_source.py::test_a_lost_gpu_keeps_its_row",
            "pipeline/exposition/test_exposition.py::test_old_readings_are_dropped_and_states_stay",
            LOG + "test_a_lost_gpu_is_told_of_while_it_stays_away",
        ),
    ),
    Known(
        "dcgm-exporter",
        (
            "started before the driver, it answers with an empty page for ever and "
            "calls itself healthy"
        ),
        ("collector/sources/nvml/test_source.py::test_a_driver_that_appears_later_is_picked_up",),
    ),
)

# Ports.
INFINIBAND = (
    Known(
        "gpud",
        "it looks at lost links alone, and at no Ethernet port",
        (
            FABRIC + "test_symbol_errors_alarm_on_both_link_layers",
            FABRIC + "test_a_roce_port_without_symbol_errors_alarms_by_its_damaged_frames",
            PORTS + "test_roce_ports_are_read_like_infiniband_ports",
        ),
    ),
    Known(
        "gpud",
        "a link that flapped is bad until an operator types a command",
        (FLAP + "test_it_clears_after_six_clean_hours_and_a_second_episode_alarms",),
    ),
    Known(
        "NVSentinel",
        "a repaired link that flaps again is not fatal any more",
        (FABRIC + "test_a_link_that_flaps_again_after_its_repair_alarms_again",),
    ),
    Known(
        "NVSentinel",
        "120 errors an hour are too many at any speed, and fewer never are",
        (BER + "test_ndr_at_its_healthy_rate_is_silent", BER + "test_hdr_at_twenty_an_hour_alarms"),
    ),
    Known(
        "NVSentinel",
        "each lost link is fatal, also where the other end was rebooted",
        (
            FABRIC + "test_a_link_that_was_lost_because_its_peer_rebooted_is_no_fault",
            FLAP + "test_reboots_of_the_node_do_not_count",
        ),
    ),
    Known(
        "NVSentinel",
        "a counter that is at its end is read as no errors",
        (
            BER + "test_a_counter_at_its_end_is_not_a_rate_of_nothing",
            FLAP + "test_a_full_counter_leaves_the_state",
        ),
    ),
    Known(
        "NVSentinel",
        "a file that could not be read for a moment becomes a fatal fault",
        (FABRIC + "test_one_unreadable_moment_fabricates_no_fault",),
    ),
    Known(
        "NVSentinel and others",
        "a management adapter that nobody cabled alarms for ever",
        (
            FABRIC + "test_a_management_port_that_is_never_up_is_silent_for_ever",
            PORTS + "test_a_port_that_never_was_active_is_not_expected",
            PORTS + "test_a_management_port_can_be_ignored",
        ),
    ),
    Known(
        "AzureHPC NHC",
        "a variable with a wrong name: two flaps days apart count as two in a moment",
        (FLAP + "test_events_days_apart_are_no_flap",),
    ),
    Known(
        "Moneo",
        "a physical state that is not in its table ends the program",
        (PORTS + "test_a_physical_state_that_nobody_knows_is_unknown_and_costs_nothing_else",),
    ),
    Known(
        "OCI",
        "words of four bytes are published as bytes, and what could not be read as 0",
        (
            QUERY + "test_data_counters_are_words_of_four_bytes",
            PORTS + "test_one_unreadable_file_costs_one_field",
        ),
    ),
    Known(
        "infiniband-exporter",
        "it resets full counters, and so the history of everybody else",
        (
            COUNTERS + "test_another_exporter_that_resets_full_counters_makes_no_rate",
            BER + "test_a_counter_that_was_reset_is_no_burst",
        ),
    ),
    Known(
        "infiniband-exporter",
        "symbol errors of the 16-bit register are lost beside the 64-bit ones",
        (
            BER + "test_errors_that_both_counters_show_are_counted_once",
            SATURATION + "test_a_full_counter_with_a_64_bit_twin_is_no_loss_of_sight",
        ),
    ),
    Known(
        "infiniband-exporter",
        "ports without errors are not reported, and a word on standard error ends the run",
        (QUERY + "test_several_ports_in_one_output", QUERY + "test_the_exit_code_decides"),
    ),
    Known(
        "node_exporter",
        "one file that gives EINVAL costs all ports, and each try a line in the kernel log",
        (
            PORTS + "test_one_unreadable_file_costs_one_field",
            (
                "collector/sources/infiniband/"
                "test_open_files.py::test_a_failing_file_is_read_ever_more_rarely"
            ),
        ),
    ),
    Known(
        "node_exporter",
        "adapters without counters, and ports that say that they have none, end the collector",
        (PORTS + "test_a_device_without_counters", PORTS + "test_contents_that_are_no_counter"),
    ),
)

# What becomes of a finding.
TELLING = (
    Known(
        "NVSentinel",
        "its state moves on before the event is stored: what a full disk refuses is lost",
        (
            (
                "pipeline/"
                "test_outlet.py::test_findings_that_a_sink_refused_come_again_with_the_next_observation"
            ),
            (
                "collector/integrations/nvsentinel/"
                "test_bridge.py::test_what_could_not_be_sent_is_sent_later"
            ),
        ),
    ),
    Known(
        "NVSentinel",
        "a misspelt setting, or one device that cannot be read, silences everything",
        (
            "collector/config/test_load.py::test_unknown_keys_name_file_line_and_path",
            "pipeline/test_engine.py::test_a_failing_source_is_an_observation_and_the_others_go_on",
        ),
    ),
    Known(
        "NVSentinel",
        "conditions of a GPU that was swapped or counted again stay for ever",
        (
            LOG + "test_a_swapped_gpu_leaves_no_condition_behind",
            LOG + "test_gpus_that_change_their_numbers_keep_their_findings",
            XID + "test_a_swapped_gpu_takes_its_findings_with_it",
        ),
    ),
    Known(
        "whoever joins by job",
        "a program that failed hides the GPU that breaks in the same job",
        (INCIDENTS + "test_a_program_that_failed_swallows_no_gpu_of_its_job",),
    ),
    Known(
        "most",
        "nobody can say that they have taken a fault on",
        (
            (
                "detectors/incidents/"
                "test_operators.py::test_an_incident_that_is_taken_on_is_told_with_who_and_what"
            ),
        ),
    ),
)

ALL = (*KERNEL_LOG, *GPUS, *INFINIBAND, *TELLING)
