"""web.config.yml: the format as exporter-toolkit documents it, and what of it is refused."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.config.raw_setting import ConfigError
from collector.config.web.settings import TlsServer, WebConfig, parse, read

# of exporter-toolkit's documentation
HASH = "$2y$10$X0h1gDsPszWURQaxFh.zoubFi6DXncSjhoQNJgRrnGs7EsimhC7zG"

EVERYTHING = f"""\
tls_server_config:
  cert_file: node.crt
  key_file: node.key
  client_auth_type: RequireAndVerifyClientCert
  client_ca_file: ca.crt
  client_allowed_sans: [prometheus.example.com]
  min_version: TLS12
  max_version: TLS13
  cipher_suites: [TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256]
  prefer_server_cipher_suites: false
  curve_preferences: [X25519]
http_server_config:
  http2: false
  headers:
    Strict-Transport-Security: max-age=63072000
    X-Frame-Options: deny
basic_auth_users:
  alice: {HASH}
rate_limit:
  interval: 100ms
  burst: 20
"""


def config(text: str) -> WebConfig:
    """A configuration of this text."""
    return parse(text.encode(), "web.yml")


def problem(text: str) -> str:
    """What is said of a text that is refused."""
    with pytest.raises(ConfigError) as caught:
        config(text)
    return str(caught.value)


def tls(text: str) -> str:
    """The text with a certificate and these further keys of tls_server_config."""
    return "tls_server_config:\n  cert_file: a\n  key_file: b\n" + "".join(
        f"  {line}\n" for line in text.splitlines()
    )


def test_every_key_of_the_format_is_read() -> None:
    """Names, types and defaults are those of exporter-toolkit's documentation."""
    taken = config(EVERYTHING)
    assert taken.tls_server_config is not None
    assert taken.rate_limit is not None
    assert taken.http_server_config is not None
    assert taken.tls_server_config.client_allowed_sans == ("prometheus.example.com",)
    assert taken.tls_server_config.prefer_server_cipher_suites is False
    assert (taken.rate_limit.seconds, taken.rate_limit.burst) == (0.1, 20)
    assert taken.http_server_config.headers == {
        "Strict-Transport-Security": "max-age=63072000",
        "X-Frame-Options": "deny",
    }
    assert taken.basic_auth_users == {"alice": HASH}
    assert (
        TlsServer().min_version,
        TlsServer().max_version,
        TlsServer().prefer_server_cipher_suites,
    ) == ("TLS12", "TLS13", True)


@pytest.mark.parametrize(
    ("value", "text"),
    [("1", "1"), ("0", "0"), ("1.50", "1.50"), ("true", "true"), ("0x10", "0x10")],
)
def test_a_header_may_be_written_as_a_number(value: str, text: str) -> None:
    """As the Go library of exporter-toolkit takes it: the characters of the file."""
    taken = config(f"http_server_config:\n  headers:\n    X-XSS-Protection: {value}\n")
    assert taken.http_server_config is not None
    assert taken.http_server_config.headers == {"X-XSS-Protection": text}


def test_names_and_files_may_be_numbers_and_an_absent_value_is_empty() -> None:
    """A user called 1234; a header without a value is not set to the word null."""
    assert config(f"basic_auth_users:\n  1234: {HASH}\n").basic_auth_users == {"1234": HASH}
    server = config(tls("client_ca_file: 7\nclient_auth_type: VerifyClientCertIfGiven"))
    assert server.tls_server_config is not None
    assert server.tls_server_config.client_ca_file == "7"
    for absent in ("", "null", "~"):
        taken = config(f"http_server_config:\n  headers:\n    X-XSS-Protection: {absent}\n")
        assert taken.http_server_config is not None
        assert taken.http_server_config.headers == {"X-XSS-Protection": ""}


@pytest.mark.parametrize(
    "text",
    ["", "{}", "# nothing\n", "tls_server_config: {}\n", "tls_server_config:\nbasic_auth_users:\n"],
)
def test_a_file_without_content_asks_for_nothing(text: str) -> None:
    """Plain HTTP, as with exporter-toolkit."""
    taken = config(text)
    assert taken.tls_server_config in (None, TlsServer())
    assert not taken.basic_auth_users


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "tls_server_config:\n  cert_fil: x\n",
            "web.yml:2: tls_server_config.cert_fil: unknown setting, did you mean cert_file?",
        ),
        ("tls:\n  cert_file: x\n", "web.yml:1: tls: unknown setting"),
        (
            "http_server_config:\n  headers:\n    X-Powered-By: us\n",
            "http_server_config.headers.X-Powered-By: cannot be set",
        ),
        (
            "rate_limit:\n  bursts: 3\n",
            "web.yml:2: rate_limit.bursts: unknown setting, did you mean burst?",
        ),
    ],
)
def test_an_unknown_key_is_refused_with_its_path(text: str, said: str) -> None:
    """A mistyped key would protect nothing and say nothing."""
    assert said in problem(text)


@pytest.mark.parametrize(
    "text",
    [
        "rate_limit: {}\nrate_limit: {}\n",
        f"basic_auth_users:\n  alice: {HASH}\n  alice: {HASH}\n",
        tls("cert_file: c"),
    ],
)
def test_a_key_that_stands_twice_is_refused(text: str) -> None:
    """YAML alone would take the last one."""
    assert "is set twice" in problem(text)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "tls_server_config:\n  cert_file: a\n",
            "tls_server_config.key_file: one of key and key_file is needed, neither is set",
        ),
        (
            tls("cert: x"),
            "tls_server_config.cert_file: one of cert and cert_file is needed, both are set",
        ),
        (
            tls("client_ca: x\nclient_ca_file: y\nclient_auth_type: VerifyClientCertIfGiven"),
            "client_ca_file: client_ca is set too",
        ),
        (tls("client_auth_type: Always"), "tls_server_config.client_auth_type"),
        (tls("client_auth_type: RequireAnyClientCert"), "accepts any self-signed certificate"),
        (tls("client_auth_type: RequireClientCert"), "accepts any self-signed certificate"),
        (tls("client_auth_type: RequireAndVerifyClientCert"), "needs client_ca_file"),
        (tls("client_auth_type: VerifyClientCertIfGiven"), "needs client_ca_file"),
        (tls("client_ca_file: ca"), "has no effect without client_auth_type"),
        (
            tls("client_allowed_sans: [a]"),
            "client_allowed_sans: needs client_auth_type: RequireAndVerifyClientCert",
        ),
        (
            tls(
                "client_auth_type: VerifyClientCertIfGiven\n"
                "client_ca_file: c\n"
                "client_allowed_sans: [a]"
            ),
            "needs client_auth_type",
        ),
        (
            tls(
                "client_auth_type: RequireAndVerifyClientCert\n"
                "client_ca_file: c\n"
                "client_allowed_sans: []"
            ),
            "no client would be accepted",
        ),
        (tls("min_version: TLS10"), "tls_server_config.min_version: TLS10 is no longer supported"),
        (
            tls("min_version: TLS13\nmax_version: TLS12"),
            "tls_server_config.min_version: TLS13 is above max_version",
        ),
        (tls("max_version: TLS14"), "tls_server_config.max_version"),
        (
            tls("prefer_server_cipher_suites: perhaps"),
            "tls_server_config.prefer_server_cipher_suites: Expected `bool`",
        ),
        (
            "http_server_config:\n  headers:\n    X-Frame-Options: maybe\n",
            "expected deny or sameorigin, got 'maybe'",
        ),
        (
            'http_server_config:\n  headers:\n    X-XSS-Protection: "0\\r\\nSet-Cookie: a"\n',
            "is not valid text for a header",
        ),
        ("basic_auth_users:\n  alice: hunter2\n", "basic_auth_users.alice: is not a bcrypt hash"),
        (f"basic_auth_users:\n  'a:b': {HASH}\n", "has no colon"),
        (
            f"basic_auth_users:\n  alice: {HASH.replace('$10$', '$31$')}\n",
            "basic_auth_users.alice: has cost 31",
        ),
        ("rate_limit:\n  interval: soon\n", "rate_limit.interval: expected a duration"),
        ("rate_limit:\n  interval: 5\n  burst: 1\n", "rate_limit.interval: expected a duration"),
        ("rate_limit:\n  interval: 1s\n", "rate_limit.burst: 0 would refuse every request"),
        ("- a list\n", "web.yml: the file: Expected `object`"),
        ("a: [", "is not valid YAML"),
    ],
)
def test_what_would_protect_less_than_it_says_is_refused(text: str, said: str) -> None:
    """At the start, with the key's path; not at three in the morning, and never silently."""
    assert said in problem(text)


def test_no_secret_is_in_an_error() -> None:
    """Hashes and keys are not for the log."""
    private = "-----BEGIN PRIVATE KEY----- c2VjcmV0"
    for text in (
        f"basic_auth_users:\n  alice: {private!r}\n",
        f"tls_server_config:\n  key: [{private!r}]\n",
        f"key: {private}\n\t- x",
    ):
        assert "c2VjcmV0" not in problem(text)


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    """Missing, or much too large for what it should be."""
    with pytest.raises(ConfigError, match=r"web\.yml: cannot be read: No such file"):
        read(tmp_path / "web.yml")
    (tmp_path / "large.yml").write_text("#" * (2 << 20))
    with pytest.raises(ConfigError, match="is larger than"):
        read(tmp_path / "large.yml")


@pytest.mark.slow
@given(
    st.one_of(
        st.text(),
        st.binary().map(lambda b: b.decode("latin-1")),
        st.from_regex(r"(tls_server_config|rate_limit):\s.*"),
    )
)
def test_any_text_is_taken_or_refused(text: str) -> None:
    """Nothing but ConfigError comes of a damaged file."""
    try:
        assert isinstance(config(text), WebConfig)
    except ConfigError as error:
        assert str(error).startswith("web.yml")
