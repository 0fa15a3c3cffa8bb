"""Configuration: strict, all problems at once, file < environment < flags."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

import msgspec
import pytest
from hypothesis import given, strategies
from hypothesis import settings as hypothesis_settings

from collector.config.load import Inputs, Loaded, load
from collector.config.raw_setting import ConfigError, RawSetting
from collector.config.settings import Config
from collector.config.tree import settings
from collector.config.units import Seconds
from detectors.drift import DECLARABLE
from pipeline.xid.table import HEADER

NOTHING: Mapping[str, str] = MappingProxyType({})
NOWHERE = Path("/nonexistent/config.yaml")


def loaded(
    flags: Mapping[str, object] = NOTHING,
    environ: Mapping[str, str] = NOTHING,
    file: Path | None = None,
) -> Loaded:
    """A configuration from flags, variables and a file."""
    given = tuple(
        RawSetting(tuple(name.split(".")), value, f"--{name}") for name, value in flags.items()
    )
    return load(Inputs(str(file or ""), environ, given, default_file=NOWHERE))


def problems(
    flags: Mapping[str, object] = NOTHING,
    environ: Mapping[str, str] = NOTHING,
    file: Path | None = None,
) -> tuple[str, ...]:
    """What is wrong with it."""
    with pytest.raises(ConfigError) as caught:
        loaded(flags, environ, file)
    return caught.value.problems


def written(folder: Path, text: str) -> Path:
    """A file with this text."""
    (folder / "config.yaml").write_text(text)
    return folder / "config.yaml"


def test_nothing_given_is_the_defaults() -> None:
    """Without file, variables and flags the agent listens on loopback
    only and simulates nothing.
    """
    config = loaded().config
    assert config == Config()
    assert config.web.listen_address == ("127.0.0.1:9400",)
    assert config.simulate.profile == ""


def test_flag_beats_environment_beats_file(tmp_path: Path) -> None:
    """The later of file, environment and flags wins, setting by setting."""
    text = "log: {level: error}\nexposition: {profile: full, compat: both}\n"
    environ = {"TOCSIN_LOG__LEVEL": "info", "TOCSIN_EXPOSITION__PROFILE": "minimal"}
    config = loaded({"log.level": "debug"}, environ, written(tmp_path, text)).config
    assert (config.log.level, config.exposition.profile, config.exposition.compat) == (
        "debug",
        "minimal",
        "both",
    )


@pytest.mark.parametrize(
    ("name", "lower", "value", "wanted"),
    [
        ("sources.nvml.enabled", "true", "false", False),
        ("simulate.seed", "7", "0", 0),
        ("sources.infiniband.perfquery", "perfquery", "", ""),
        ("sources.infiniband.ignore", "mlx5_bond_0/1", "", ()),
    ],
)
def test_a_falsy_override_is_an_override(name: str, lower: str, value: str, wanted: object) -> None:
    """False, 0 and the empty string replace what was below them."""
    path = tuple(name.split("."))
    found: object = loaded({name: value}, {settings()[path].variable: lower}).config
    for part in path:
        found = getattr(found, part)
    assert found == wanted


def test_unknown_keys_name_file_line_and_path(tmp_path: Path) -> None:
    """A key that does not exist is an error that says where it stands and
    what was probably meant.
    """
    wrong = problems(file=written(tmp_path, "web:\n  listen_adress: [':9400']\nsorces: {}\n"))
    assert wrong == (
        (
            f"{tmp_path}/config.yaml:2: web.listen_adress: unknown setting, did you "
            "mean listen_address?"
        ),
        f"{tmp_path}/config.yaml:3: sorces: unknown setting, did you mean sources?",
    )


def test_all_problems_are_said_at_once(tmp_path: Path) -> None:
    """One start shows every mistake of file, environment and flags."""
    text = (
        "web: {max_concurrent_scrapes: 0}\n"
        "sources: {nvml: {period: 15}}\n"
        "log: 3\n"
        "exposition: {compat: dcgm-5}\n"
    )
    wrong = problems(
        {"simulate.seed": "x"},
        {"TOCSIN_WEB__PORT": "1", "TOCSIN_LOG__LEVEL": "loud"},
        written(tmp_path, text),
    )
    for part in (
        "max_concurrent_scrapes",
        "sources.nvml.period",
        "log",
        "compat",
        "--simulate.seed",
        "WEB__PORT",
        "LOG__LEVEL",
    ):
        assert len([line for line in wrong if part in line.split(": expected")[0]]) >= 1, part
    assert len(wrong) == 7


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a: [", "not valid YAML"),
        ("- a", "expected settings"),
        ("web: 3", "expected settings"),
        ("web: {telemetry_path: /m, telemetry_path: /n}", "set twice"),
        ("log: {level: 2001-99-99}", "month must be in"),
        ("log: {level: null}", "expected text, got `null`"),
        ("web: {listen_address: ':9400'}", "expected a list, got text"),
        ("web: {listen_address: [9400]}", "[0]: expected text, got `int`"),
        ("simulate: {seed: 1.5}", "expected `int`, got `float`"),
        ("sources: {nvml: {enabled: 1}}", "expected `bool`, got `int`"),
        ("sources: {nvml: {period: fast}}", "expected a duration such as 15s"),
        ("sources: {nvml: {period: -1s}}", "expected a duration such as 15s"),
        ("topology: {node_labels: {rack: 3}}", "rack: expected text, got `int`; put it in quotes"),
        (
            "detectors: {drift: {declared: {gpu.driver_version: 580.10}}}",
            "gpu.driver_version: expected text, got `float`",
        ),
        ("? [a]\n: b", "unknown setting"),
        ("a: &a {b: *a}", "unknown setting"),
        ("!!python/object/apply:os.system ['true']", "expected settings"),
        ("log: {level: !!python/name:os.system }", "not valid YAML"),
        ("[" * 100_000, "nested too deeply"),
        ("#" * (2 << 20), "larger than"),
    ],
)
def test_bad_files_are_refused_with_a_reason(text: str, said: str, tmp_path: Path) -> None:
    """Whatever is in the file, the answer is a ConfigError that names the
    file and says what is wrong.
    """
    wrong = problems(file=written(tmp_path, text))
    assert str(tmp_path) in wrong[0]
    assert said in wrong[0]


@pytest.mark.parametrize("word", ["on", "off"])
def test_on_and_off_are_words_in_a_file_too(word: str, tmp_path: Path) -> None:
    """They need no quotes where a setting has them as choices, as the documentation writes them."""
    file = tmp_path / "config.yaml"
    file.write_text(
        f"sources: {{nccl: {{ras: {word}}}}}\ngates: {{kubernetes: {{report: {word}}}}}\n"
    )
    config = load(Inputs(str(file))).config
    assert (config.sources.nccl.ras, config.gates.kubernetes.report) == (word, word)


def test_a_file_that_was_asked_for_must_be_there() -> None:
    """Only the default file may be missing."""
    with pytest.raises(ConfigError, match="No such file"):
        load(Inputs("/nonexistent/tocsin.yaml"))


def test_a_binary_file_is_refused(tmp_path: Path) -> None:
    """Bytes that are no text do not raise anything but a ConfigError."""
    (tmp_path / "c.yaml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ConfigError, match="not UTF-8"):
        load(Inputs(str(tmp_path / "c.yaml")))


def test_an_empty_file_is_a_file(tmp_path: Path) -> None:
    """An empty file, or one of comments, sets nothing."""
    assert loaded(file=written(tmp_path, "# nothing\nweb:\n")).config == Config()


def test_the_default_file_is_read_where_it_is(tmp_path: Path) -> None:
    """Without being named, the default file counts when it exists."""
    (tmp_path / "config.yaml").write_text("log: {level: debug}")
    assert load(Inputs(default_file=tmp_path / "config.yaml")).config.log.level == "debug"


def test_a_default_file_that_cannot_be_looked_at_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a folder that the user may not enter, and where its link leads nowhere."""
    (tmp_path / "link.yaml").symlink_to(tmp_path / "gone.yaml")
    with pytest.raises(ConfigError, match=r"link\.yaml: cannot be read: No such file"):
        load(Inputs(default_file=tmp_path / "link.yaml"))

    def refused(*_: object, **__: object) -> None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    for name in ("stat", "lstat", "open"):
        monkeypatch.setattr(Path, name, refused)
    with pytest.raises(ConfigError, match=r"config\.yaml: cannot be read: Permission denied"):
        load(Inputs(default_file=NOWHERE))


def test_the_file_may_be_named_by_the_environment(tmp_path: Path) -> None:
    """$TOCSIN_CONFIG_FILE is the flag --config.file for containers."""
    (tmp_path / "c.yaml").write_text("log: {level: debug}")
    assert (
        load(
            Inputs(environ={"TOCSIN_CONFIG_FILE": str(tmp_path / "c.yaml")}, default_file=NOWHERE)
        ).config.log.level
        == "debug"
    )


def test_a_kubernetes_service_called_tocsin_is_no_setting() -> None:
    """Kubernetes puts TOCSIN_SERVICE_HOST and the like into every pod of the namespace."""
    environ = {
        "TOCSIN_SERVICE_HOST": "10.0.0.1",
        "TOCSIN_PORT_9400_TCP_ADDR": "10.0.0.1",
        "TOCSIN_PORT": "tcp://10.0.0.1:9400",
    }
    assert loaded(environ=environ).config == Config()


def test_lists_and_tables_come_from_the_environment_with_commas() -> None:
    """One variable holds a whole list or table."""
    environ = {
        "TOCSIN_WEB__LISTEN_ADDRESS": ":9400, [::1]:9401",
        "TOCSIN_TOPOLOGY__NODE_LABELS": "rack=example.com/rack,leaf=example.com/leaf",
        "TOCSIN_TOPOLOGY__LABELS_FILE": "/etc/podinfo/labels",
    }
    config = loaded(environ=environ).config
    assert config.web.listen_address == (":9400", "[::1]:9401")
    assert config.topology.node_labels == {"rack": "example.com/rack", "leaf": "example.com/leaf"}


@pytest.mark.parametrize(
    ("settings_given", "said"),
    [
        ({"web.listen_address": "9400"}, "--web.listen_address: '9400' is not a listen address"),
        ({"web.listen_address": "::1:9400"}, "expected host:port, [IPv6]:port"),
        ({"web.listen_address": "127.0.0.1:70000"}, "is not a listen address"),
        ({"web.listen_address": ""}, "at least one address"),
        ({"web.telemetry_path": "metrics"}, "not a usable path"),
        ({"web.telemetry_path": "/health"}, "not a usable path"),
        ({"web.telemetry_path": "/incidents/1"}, "not a usable path"),
        ({"web.dashboard_url": "grafana/d/gpu"}, "begins with neither http:// nor https://"),
        ({"web.runbook_url": "https://x/{gpux}"}, "{gpux} is none of {host}, {gpu}"),
        ({"sources.nvml.period": "10ms"}, "shorter than"),
        ({"sources.kmsg.deadline": "0"}, "longer than 0"),
        ({"sources.nvml.call_deadline": "6s"}, "sources.nvml.deadline (5s)"),
        ({"topology.file": "a", "topology.labels_file": "b"}, "topology.file is set too"),
        ({"topology.node_labels": "a=b"}, "which is not set"),
        ({"topology.node_labels": "a"}, "name=value"),
        ({"simulate.inject": "xid@gpu0"}, "also set simulate.profile"),
        (
            {"simulate.profile": "hgx-h99"},
            "--simulate.profile: no profile 'hgx-h99'; there are gb200",
        ),
        (
            {"simulate.profile": "hgx-h100", "simulate.inject": "melt@gpu0"},
            "--simulate.inject: no fault 'melt'",
        ),
        ({"simulate.day": "bad"}, "faults can only be injected into a simulated node"),
        (
            {"simulate.profile": "hgx-h100", "simulate.day": "worse"},
            "--simulate.day: no day 'worse'; there are bad, quiet",
        ),
        ({"simulate.speed": "10"}, "--simulate.speed: only a simulated node can run faster"),
        ({"simulate.profile": "hgx-h100", "simulate.speed": "100"}, "<= 60"),
        (
            {"detectors.off_trial": "ecc,xidd"},
            "--detectors.off_trial: no detector 'xidd'; known: all, availability",
        ),
        (
            {"detectors.on_trial": "hangs"},
            "--detectors.on_trial: no detector 'hangs'; known: all, availability",
        ),
        ({"exposition.devices": "x:1"}, "but found 'x'"),
        (
            {"exposition.counters_file": "/nonexistent.csv"},
            "Could not read metrics file '/nonexistent.csv'",
        ),
        (
            {"detectors.xid_table": "/nonexistent.csv"},
            "--detectors.xid_table: /nonexistent.csv: No such file",
        ),
        (
            {"detectors.drift.declared": "gpu.vbois=96.00.74"},
            "--detectors.drift.declared: gpu.vbois is not compared; there are gpu.driver_version",
        ),
        ({"detectors.drift.declared": "gpu.vbios="}, "gpu.vbios is empty"),
        (
            {"detectors.drift.declared": "gpu.ecc_mode_current=on"},
            "'on' is neither 0 (off) nor 1 (on)",
        ),
        ({"exposition.xid_count_window": "0"}, "longer than 0"),
        (
            {"storage.path": "history"},
            "--storage.path: 'history': a directory is given by its absolute path",
        ),
        ({"storage.path": "ftp://a/b"}, "unknown scheme ftp"),
        ({"storage.cluster": "a/b"}, "'a/b' is not a valid name"),
        ({"storage.cluster": ""}, "'' is not a valid name"),
        ({"storage.retention.one_minute": "7d"}, "storage.retention.raw (30d)"),
        ({"storage.retention.raw": "0", "storage.retention.fifteen_minutes": "400d"}, "forever"),
    ],
)
def test_settings_that_do_not_fit_are_refused(settings_given: dict[str, str], said: str) -> None:
    """Cross checks name what the user typed."""
    assert said in problems(settings_given)[0]


def test_declared_values_come_from_a_file_by_kind_and_fact(tmp_path: Path) -> None:
    """Dots belong to the name of the fact."""
    text = (
        "detectors:\n  drift:\n    declared:\n      gpu.driver_version: 580.95.05\n      "
        "ib_port.mtu: '4096'\n"
    )
    declared = loaded(file=written(tmp_path, text)).config.detectors.drift.declared
    assert declared == {"gpu.driver_version": "580.95.05", "ib_port.mtu": "4096"}


def test_every_fact_that_may_be_declared_is_named_where_the_setting_is_explained() -> None:
    """Nobody has to guess them, and none is promised that is not compared."""
    text = settings()["detectors", "drift", "declared"].help
    assert set(re.findall(r"`((?:gpu|ib_port|node)\.\w+)`", text)) == set(DECLARABLE)


def test_rules_of_a_sites_xid_table_are_read_at_the_start(tmp_path: Path) -> None:
    """How NVLink 5 is decoded stands in the notes of its codes: a word that is no rule is refused
    with it, not met at three in the morning.
    """
    file = tmp_path / "mine.csv"
    file.write_text(
        f"{HEADER}\n147,TREX,a unit,WORKFLOW_NVLINK5,decode,record,none,TREX: reboot=*\n"
    )
    assert (
        "'reboot=*' is no rule such as reset=0x2,0x10"
        in problems({"detectors.xid_table": str(file)})[0]
    )


@pytest.mark.slow
@given(strategies.integers(0, 10**9))
def test_durations_read_what_they_write(milliseconds: int) -> None:
    """The text of a duration means that duration."""
    seconds = Seconds(milliseconds / 1000)
    assert float(Seconds.parse(str(seconds))) == pytest.approx(float(seconds))


@pytest.mark.slow
@given(strategies.text() | strategies.integers() | strategies.none() | strategies.booleans())
def test_anything_else_is_no_duration(value: object) -> None:
    """A duration is parsed or refused with ValueError, never anything else."""
    try:
        assert Seconds.parse(value) >= 0
    except ValueError as error:
        assert "expected a duration" in str(error)


@pytest.mark.slow
@hypothesis_settings(deadline=None)  # a loaded machine may take long over one example
@given(
    strategies.dictionaries(
        strategies.sampled_from([s.variable for s in settings().values()]),
        strategies.text(),
        max_size=5,
    )
)
def test_any_environment_is_taken_or_refused(environ: dict[str, str]) -> None:
    """Hostile values end in a ConfigError at most."""
    try:
        load(Inputs(environ=environ, default_file=NOWHERE))
    except ConfigError as error:
        assert error.problems


@pytest.mark.parametrize("text", ["/etc/a\0b", "/etc/a,\0"])
def test_a_nul_character_is_refused_by_name(text: str) -> None:
    """No path, address or name has one, and opening such a path raises."""
    with pytest.raises(ConfigError, match="COUNTERS_FILE: contains a NUL character"):
        load(Inputs(environ={"TOCSIN_EXPOSITION__COUNTERS_FILE": text}, default_file=NOWHERE))


def test_the_configuration_is_frozen() -> None:
    """Nobody changes a setting after it was validated."""
    with pytest.raises(AttributeError, match="immutable"):
        Config().web.telemetry_path = "/other"  # type: ignore[misc]


def test_every_setting_has_one_flag_and_one_variable() -> None:
    """Names of flags and variables are made from the path and never collide."""
    rows = list(settings().values())
    assert len({s.flag for s in rows}) == len({s.variable for s in rows}) == len(rows)


def test_every_setting_is_explained() -> None:
    """Each has a sentence, since help and reference are made from it."""
    assert [s.name for s in settings().values() if not s.help.endswith(".")] == []


def test_defaults_are_valid() -> None:
    """Every default would be accepted if it were given."""
    for setting in settings().values():
        if setting.plain is not Seconds:
            assert msgspec.convert(setting.default, setting.type) == setting.default


def test_retention_becomes_the_childs_policy() -> None:
    """Ages in seconds, the budget in bytes."""
    given = {
        "storage.most_bytes": "1000000",
        "storage.retention.raw": "7d",
        "storage.retention.events": "365d",
    }
    kept = loaded(given).config.storage.policy
    day = 86400
    assert (kept.raw_s, kept.minute_s, kept.quarter_s, kept.events_s) == (
        7 * day,
        396 * day,
        0,
        365 * day,
    )
    assert kept.max_bytes == 10**6
