"""Settings of the upload: what is refused at the start, and that they reach the sealing child."""

from __future__ import annotations

from pathlib import Path

import pytest

from collector.config import tree
from collector.config.load import Inputs, load
from collector.config.raw_setting import ConfigError, RawSetting
from collector.config.settings import Config
from pipeline.store.remote.upload_plan import Plan, Target


def given(**settings: str) -> Config:
    """The configuration with these settings of storage.upload."""
    flags = [
        RawSetting(("storage", "upload", name), value, f"--{name}")
        for name, value in settings.items()
    ]
    return load(Inputs(flags=flags, default_file=Path("/nonexistent"))).config


def test_nothing_is_uploaded_unless_a_url_is_set() -> None:
    """Off by default, also where other settings are given."""
    assert Config().storage.upload.plan is None
    assert given(region="eu-central-1").storage.upload.plan is None


def test_every_setting_reaches_the_child() -> None:
    """None is forgotten on the way into the plan."""
    values = {
        "url": "s3://bucket/fleet",
        "endpoint": "https://minio.example.com:9000",
        "region": "eu-central-1",
        "credentials_file": "/run/secrets/s3",
        "profile": "tocsin",
        "ca_file": "/etc/ssl/private-ca.pem",
        "timeout": "5s",
        "run_time": "1m",
        "run_bytes": "1000",
        "most_pending_bytes": "2000",
    }
    assert {p[-1] for p in tree.settings() if p[:-1] == ("storage", "upload")} == values.keys()
    how = {
        name: values[name]
        for name in ("endpoint", "region", "credentials_file", "profile", "ca_file")
    }
    target = Target(values["url"], **how, timeout_s=5.0)
    assert given(**values).storage.upload.plan == Plan(target, 60.0, 1000, 2000)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"url": "ftp://host/x"}, "--url: 'ftp://host/x': unknown scheme ftp"),
        (
            {"url": "backup/tocsin"},
            "--url: 'backup/tocsin': a directory is given by its absolute path",
        ),
        ({"url": "s3:///x"}, "--url: 's3:///x': names no bucket"),
        ({"url": "/mnt/x", "endpoint": "https://h"}, "--endpoint: has no effect for a directory"),
        (
            {"url": "/mnt/x", "credentials_file": "/f"},
            "--credentials_file: has no effect for a directory",
        ),
        (
            {"url": "s3://b", "endpoint": "minio:9000"},
            "--endpoint: 'minio:9000' is not an address such as",
        ),
        ({"url": "s3://b", "timeout": "0"}, "--timeout: must be longer than 0"),
        ({"url": "s3://b", "run_bytes": "0"}, "--run_bytes: expected `int` >= 1"),
    ],
)
def test_a_wrong_setting_is_refused_at_the_start(settings: dict[str, str], said: str) -> None:
    """The message begins with what the user typed."""
    with pytest.raises(ConfigError) as refused:
        given(**settings)
    assert str(refused.value).startswith(said)


@pytest.mark.parametrize("url", ["s3://AKID:SECRET@bucket/x", "az://container/x?sig=SECRET"])
def test_credentials_in_a_url_are_refused_and_not_repeated(url: str) -> None:
    """They belong in a file; the log must not hold them."""
    with pytest.raises(ConfigError, match="holds no credentials") as refused:
        given(url=url)
    assert "SECRET" not in str(refused.value)
