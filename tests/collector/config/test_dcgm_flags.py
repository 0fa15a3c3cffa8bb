"""dcgm-exporter's flags and variables keep working, or say why not."""

from __future__ import annotations

from pathlib import Path

import pytest

from collector.cli.main import parser
from collector.cli.options import inputs
from collector.config.dcgm_flags import FLAGS, ITS_OWN_FILES, DcgmFlag
from collector.config.load import Inputs, Loaded, load
from collector.config.raw_setting import ConfigError
from pipeline.dcgm import DEFAULT_FILE, LOWER_CASE_FILE
from tests.sources import ROOT

NOWHERE = Path("/nonexistent/config.yaml")
OPEN = ROOT / "tests" / "data" / "web" / "open.yml"


def agent(*argv: str, **environ: str) -> Loaded:
    """What an agent started like this runs with."""
    given = inputs(parser().parse_args(["agent", *argv]))
    return load(Inputs(given.file, environ, given.flags, given.dcgm, NOWHERE))


def value_for(flag: DcgmFlag) -> str:
    """A value the flag takes."""
    known = {
        "--log-format": "json",
        "--devices": "g:0",
        "--collectors": str(DEFAULT_FILE),
        "--web-config-file": str(OPEN),
    }
    if flag.long in known:
        return known[flag.long]
    return {"switch": "true", "milliseconds": "5000", "interval": "500", "text": "1:7"}[flag.kind]


def taken(flag: DcgmFlag, loaded: Loaded) -> bool:
    """Whether a flag did what its row says: set something, or said that it has no effect."""
    return flag.setting in loaded.origins if flag.setting else len(loaded.notices) == 1


OTHERS = ("--max-concurrent-scrapes", "--config-file", "--configmap-data")
EFFECTIVE = [flag for flag in FLAGS if flag.long not in OTHERS]


@pytest.mark.slow
@pytest.mark.parametrize("flag", EFFECTIVE, ids=lambda f: f.long)
def test_every_spelling_is_accepted(flag: DcgmFlag) -> None:
    """Short, long with one dash or two, with = or a blank, as Go's flag package takes them."""
    for name in flag.names:
        spellings = [name] if not name.startswith("--") else [name, name[1:]]
        for spelling in spellings:
            assert taken(flag, agent(f"{spelling}={value_for(flag)}")), spelling
            if flag.kind != "switch":
                assert taken(flag, agent(spelling, value_for(flag))), spelling
            else:
                assert taken(flag, agent(spelling)), spelling


@pytest.mark.slow
@pytest.mark.parametrize("flag", EFFECTIVE, ids=lambda f: f.long)
def test_every_variable_is_accepted(flag: DcgmFlag) -> None:
    """Each flag has its variable."""
    assert taken(flag, agent(**{flag.variable: value_for(flag)}))


def test_the_usual_start_of_dcgm_exporter() -> None:
    """The command line of its systemd unit and the variables of its manifest
    give what they asked for.
    """
    loaded = agent(
        "-f",
        str(DEFAULT_FILE),
        "-c",
        "500",
        DCGM_EXPORTER_LISTEN=":9400",
        DCGM_EXPORTER_KUBERNETES="true",
    )
    assert loaded.config.exposition.counters_file == str(DEFAULT_FILE)
    assert loaded.config.sources.nvml.period == 0.5
    assert loaded.config.web.listen_address == (":9400",)
    assert loaded.config.exposition.kubernetes
    assert loaded.notices == ()


def test_its_switches_for_pods_and_jobs_do_what_they_say() -> None:
    """Socket, resources, claims, shares and mapping folder are settings of ours."""
    loaded = agent(
        *("-k", "--kubernetes-virtual-gpus", "--kubernetes-enable-dra"),
        *(
            "--pod-resources-kubelet-socket",
            "/run/k.sock",
            "--nvidia-resource-names",
            "a.com/gpu,b.com/gpu",
        ),
        DCGM_HPC_JOB_MAPPING_DIR="/run/jobs",
    )
    shown, jobs = loaded.config.exposition, loaded.config.sources.jobs
    assert (shown.kubernetes, shown.kubernetes_virtual_gpus, shown.kubernetes_enable_dra) == (
        True,
        True,
        True,
    )
    assert (jobs.kubelet_socket, jobs.resource_names, jobs.mapping_dir) == (
        "/run/k.sock",
        ("a.com/gpu", "b.com/gpu"),
        "/run/jobs",
    )
    assert loaded.notices == ()


@pytest.mark.parametrize("file", ITS_OWN_FILES)
def test_its_own_counters_file_need_not_be_there(file: str) -> None:
    """Its unit and its chart name a file of its own package: ours is shown in its
    place, and the log says so.
    """
    loaded = agent(DCGM_EXPORTER_COLLECTORS=file)
    ours = {"": DEFAULT_FILE}.get(loaded.config.exposition.counters_file, LOWER_CASE_FILE)
    assert ours == ITS_OWN_FILES[file]
    assert f"there is no {file}" in loaded.notices[0]


def test_the_file_with_the_lower_case_names_shows_those() -> None:
    """Who asks for the names of dcgm-exporter 1.x must not get the others in their place."""
    loaded = agent("-f", "/etc/dcgm-exporter/1.x-compatibility-metrics.csv")
    assert loaded.config.exposition.counters_file == str(LOWER_CASE_FILE)


def test_another_counters_file_must_be_there() -> None:
    """A file of the site that is missing ends the start, as it ends dcgm-exporter's."""
    with pytest.raises(ConfigError, match="-f: Could not read metrics file"):
        agent("-f", "/nonexistent.csv")


def test_its_long_interval_does_not_blind_the_detectors() -> None:
    """-c 30000 is its default: it means the samples of the dialect, while GPUs are read
    every second all the same.
    """
    config = agent("-c", "20000").config
    assert (config.exposition.collect_interval, config.sources.nvml.period) == (20.0, 1.0)


def test_its_short_interval_makes_readings_faster() -> None:
    """-c 500 asks for two readings a second."""
    config = agent("-c", "500").config
    assert (config.exposition.collect_interval, config.sources.nvml.period) == (0.5, 0.5)


def test_an_interval_that_is_too_short_is_made_the_shortest() -> None:
    """-c 20 works in dcgm-exporter: it is 50 ms here, and the log says so."""
    loaded = agent("-c", "20")
    config = loaded.config
    assert (config.exposition.collect_interval, config.sources.nvml.period) == (0.05, 0.05)
    assert loaded.notices == ("-c: 20ms is shorter than the shortest interval; it is 50ms",)


def test_an_interval_of_nothing_is_refused() -> None:
    """-c 0 is none in dcgm-exporter either."""
    with pytest.raises(ConfigError, match="must be longer than 0"):
        agent("-c", "0")


@pytest.mark.parametrize("argv", [["-c", "30000"], ["-c", "500", "-c", "30000"]])
def test_an_interval_that_is_overridden_leaves_nothing_behind(argv: list[str]) -> None:
    """Neither the variable nor an earlier flag makes readings faster than the last flag asks."""
    config = agent(*argv, DCGM_EXPORTER_INTERVAL="500").config
    assert (config.exposition.collect_interval, config.sources.nvml.period) == (30.0, 1.0)


def test_repeated_resource_names_add_up() -> None:
    """--nvidia-resource-names is a list in dcgm-exporter: each flag adds to it, and the command
    line replaces the variable.
    """
    argv = ("--nvidia-resource-names", "a.com/gpu,b.com/gpu", "-nvidia-resource-names=c.com/gpu")
    config = agent(*argv, NVIDIA_RESOURCE_NAMES="d.com/gpu").config
    assert config.sources.jobs.resource_names == ("a.com/gpu", "b.com/gpu", "c.com/gpu")


def test_of_other_repeated_flags_the_last_one_counts() -> None:
    """An address is one in dcgm-exporter, and a switch is what it was set to last."""
    assert agent("-a", ":1", "-a", ":2").config.web.listen_address == (":2",)
    assert agent("--debug", "--debug=false").config.log.level == "info"


def test_flag_beats_variable() -> None:
    """Its precedence: flag, then environment."""
    assert agent("-a", ":1", DCGM_EXPORTER_LISTEN=":2").config.web.listen_address == (":1",)


def test_its_flag_beats_our_variable() -> None:
    """A flag is a flag, whoever's: the command line wins over the environment."""
    assert agent("-a", ":1", TOCSIN_WEB__LISTEN_ADDRESS=":2").config.web.listen_address == (":1",)


def test_our_name_wins_on_the_same_level() -> None:
    """Who spells a setting our way as well means it."""
    assert agent("-a", ":1", "--web.listen-address", ":2").config.web.listen_address == (":2",)
    assert agent(
        DCGM_EXPORTER_LISTEN=":1", TOCSIN_WEB__LISTEN_ADDRESS=":2"
    ).config.web.listen_address == (":2",)


def test_switches_can_be_switched_off() -> None:
    """=false asks for nothing and says nothing; for -n it asks for the host label."""
    off = agent("--kubernetes=false", "-k=0", "--debug=false", TOCSIN_LOG__LEVEL="error")
    assert off.notices == ()
    assert off.config.log.level == "error"
    assert agent("-n").config.exposition.hostname is False
    assert agent("-n=false").config.exposition.hostname is True


def test_empty_variables_are_not_set() -> None:
    """Templates leave empty variables behind."""
    assert agent(**{flag.variable: "" for flag in FLAGS}).origins == {}


@pytest.mark.slow
@pytest.mark.parametrize(
    "argv",
    [["--web-config-file", "w.yaml"], ["-web-config-file=w.yaml"], ["--web.config.file=w.yaml"]],
)
def test_a_web_configuration_that_is_no_good_ends_the_start(argv: list[str]) -> None:
    """Who asks for TLS or passwords must not be served in the clear."""
    with pytest.raises(ConfigError, match=r"w\.yaml: cannot be read"):
        agent(*argv)
    with pytest.raises(
        ConfigError, match=r"DCGM_EXPORTER_WEB_CONFIG_FILE: /nowhere/web\.yaml: cannot be read"
    ):
        agent(DCGM_EXPORTER_WEB_CONFIG_FILE="/nowhere/web.yaml")


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["-k=maybe"], "-k: expected true or false"),
        (["-c", "30s"], "-c: expected a number of milliseconds"),
        (["-c", "-5"], "expected"),
    ],
)
def test_bad_values_are_refused(
    argv: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The message names the flag as it was typed."""
    try:
        agent(*argv)
    except ConfigError as error:
        assert said in str(error)
    except SystemExit as error:
        assert error.code == 2
        assert said in capsys.readouterr().err
    else:
        pytest.fail("was accepted")


@pytest.mark.slow
def test_its_own_configuration_file_is_refused_with_the_way_out() -> None:
    """It may choose the counters: other series than asked for would be shown, silently."""
    for argv, variables, origin in (
        (["--config-file", "/etc/dcgm-exporter/config.yaml"], {}, "--config-file"),
        ([], {"DCGM_EXPORTER_CONFIG_FILE": "/etc/dcgm-exporter/config.yaml"}, "DCGM_EXPORTER_C"),
    ):
        with pytest.raises(ConfigError) as refused:
            agent(*argv, **variables)
        assert f"{origin}" in str(refused.value)
        assert "/etc/dcgm-exporter/config.yaml" in str(refused.value)
        assert "counters file (-f)" in str(refused.value)


@pytest.mark.parametrize(
    ("argv", "variables", "origin"),
    [
        (["-m", "monitoring:counters"], {}, "-m"),
        (["--configmap-data=monitoring:counters"], {}, "--configmap-data"),
        ([], {"DCGM_EXPORTER_CONFIGMAP_DATA": "monitoring:counters"}, "DCGM_EXPORTER_CONFIGMAP_DA"),
    ],
)
def test_counters_from_a_config_map_are_refused_with_the_way_out(
    argv: list[str], variables: dict[str, str], origin: str
) -> None:
    """Other series than asked for would be shown, silently."""
    with pytest.raises(ConfigError, match="mount the ConfigMap as a file and use -f") as refused:
        agent(*argv, **variables)
    assert str(refused.value).startswith(origin)
    assert "monitoring:counters" in str(refused.value)


@pytest.mark.parametrize("value", ["none", ""])
def test_no_config_map_asks_for_nothing(value: str) -> None:
    """`none` is dcgm-exporter's default and stands in many manifests; a flag overrides the
    variable.
    """
    loaded = agent("-m", value, DCGM_EXPORTER_CONFIGMAP_DATA="monitoring:counters")
    assert (loaded.notices, loaded.origins) == ((), {})
    assert agent(DCGM_EXPORTER_CONFIGMAP_DATA=value).notices == ()


@pytest.mark.parametrize(
    ("argv", "variable", "wanted"),
    [
        ([], "", False),
        (["--health-require-gpus"], "", True),
        (["--health-require-gpus=false"], "true", False),
        ([], "true", True),
        ([], "false", False),
    ],
)
def test_health_may_require_gpus(argv: list[str], variable: str, wanted: bool) -> None:
    """Off by default; flag, then variable, as in dcgm-exporter 4.9."""
    config = agent(*argv, DCGM_EXPORTER_HEALTH_REQUIRE_GPUS=variable).config
    assert config.web.health_require_gpus is wanted


def test_log_formats_are_translated() -> None:
    """Its text is our logfmt."""
    assert agent("--log-format", "text").config.log.format == "logfmt"
    assert agent(DCGM_EXPORTER_LOG_FORMAT="json").config.log.format == "json"
