"""TLS contexts made from a configuration: what they agree on, and which files are refused."""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import Any

import pytest

from collector.config.raw_setting import ConfigError
from collector.config.web.settings import TlsServer
from collector.config.web.tls import allowed, context
from tests.certificates import Authority

AUTHORITY = Authority()
SERVER = AUTHORITY.server()


def server(folder: Path, notices: list[str] | None = None, **keys: Any) -> ssl.SSLContext:
    """A context of these keys with a good certificate."""
    SERVER.write(folder, "node")
    return context(
        TlsServer(**{"cert_file": "node.crt", "key_file": "node.key"} | keys),
        folder,
        (notices if notices is not None else []).append,
    )


def shake(served: ssl.SSLContext, client: ssl.SSLContext) -> tuple[str, str]:
    """Version and cipher that a handshake in memory ends with; ssl.SSLError where
    it fails on either side.
    """
    ends = [(ssl.MemoryBIO(), ssl.MemoryBIO()) for _ in range(2)]
    parties = [
        served.wrap_bio(*ends[0], server_side=True),
        client.wrap_bio(*ends[1], server_hostname="localhost"),
    ]
    for _ in range(5):
        for i, party in enumerate(parties):
            try:
                party.do_handshake()
            except ssl.SSLWantReadError:
                pass
            finally:
                ends[1 - i][0].write(ends[i][1].read())
    cipher = parties[1].cipher()
    assert cipher is not None
    return str(parties[1].version()), cipher[0]


def client(**wanted: Any) -> ssl.SSLContext:
    """One that trusts our authority."""
    made = ssl.create_default_context(cadata=AUTHORITY.certificate.decode())
    for name, value in wanted.items():
        setattr(made, name, value)
    return made


def test_the_newest_version_is_agreed_on(tmp_path: Path) -> None:
    """TLS 1.3 where both can."""
    assert shake(server(tmp_path), client())[0] == "TLSv1.3"


@pytest.mark.parametrize(
    ("keys", "theirs"),
    [
        ({"min_version": "TLS13"}, ssl.TLSVersion.TLSv1_2),
        ({"cipher_suites": ("TLS_AES_128_GCM_SHA256",)}, ssl.TLSVersion.TLSv1_2),
        ({"max_version": "TLS12"}, ssl.TLSVersion.TLSv1_3),
    ],
)
def test_a_version_that_is_not_wanted_is_refused(
    tmp_path: Path, keys: dict[str, Any], theirs: ssl.TLSVersion
) -> None:
    """Bounds hold, and a list with suites of TLS 1.3 alone leaves TLS 1.2 nothing, as in Go."""
    with pytest.raises(ssl.SSLError):
        shake(server(tmp_path, **keys), client(minimum_version=theirs, maximum_version=theirs))


def test_cipher_suites_are_gos_names(tmp_path: Path) -> None:
    """Only what is listed is agreed on below TLS 1.3."""
    made = server(tmp_path, cipher_suites=("TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",))
    assert (
        shake(made, client(maximum_version=ssl.TLSVersion.TLSv1_2))[1]
        == "ECDHE-ECDSA-CHACHA20-POLY1305"
    )


def test_the_servers_order_of_suites_counts_unless_switched_off(tmp_path: Path) -> None:
    """prefer_server_cipher_suites says whose first wish it is."""
    two = ("TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384", "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256")
    theirs = client(maximum_version=ssl.TLSVersion.TLSv1_2)
    theirs.set_ciphers("ECDHE-ECDSA-AES128-GCM-SHA256:ECDHE-ECDSA-AES256-GCM-SHA384")
    assert shake(server(tmp_path, cipher_suites=two), theirs)[1] == "ECDHE-ECDSA-AES256-GCM-SHA384"
    assert (
        shake(server(tmp_path, cipher_suites=two, prefer_server_cipher_suites=False), theirs)[1]
        == "ECDHE-ECDSA-AES128-GCM-SHA256"
    )


def test_a_curve_that_is_demanded_is_the_only_one(tmp_path: Path) -> None:
    """A client that has only another curve is refused; one that has it is served."""
    made = server(tmp_path, curve_preferences=("CurveP384",))
    other = client()
    other.set_ecdh_curve("prime256v1")
    with pytest.raises(ssl.SSLError):
        shake(made, other)
    assert shake(made, client())


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        (
            {"cipher_suites": ("TLS_RSA_WITH_RC4_128_SHA",)},
            "cipher_suites: 'TLS_RSA_WITH_RC4_128_SHA' is not one of",
        ),
        (
            {"cipher_suites": ("TLS_AES_128_GCM_SHA256",), "max_version": "TLS12"},
            "cipher_suites: names none for TLS12",
        ),
        ({"curve_preferences": ("P-256",)}, "curve_preferences: 'P-256' is not one of"),
        (
            {"curve_preferences": ("X25519", "CurveP256")},
            "curve_preferences: one curve can be demanded, or all of them",
        ),
        (
            {"cert_file": "gone.crt"},
            "tls_server_config.cert_file: .*gone.crt: cannot be read: No such file",
        ),
        ({"key_file": "other.key"}, "node.crt and .*other.key: they do not belong together"),
        ({"cert_file": "junk"}, "junk and .*node.key: no certificate with its key in PEM"),
        ({"key_file": "locked.key"}, "key_file: the key is encrypted"),
        (
            {"client_auth_type": "RequireAndVerifyClientCert", "client_ca_file": "junk"},
            "client_ca_file: junk: no certificate in PEM",
        ),
        ({"cert_file": "open.crt"}, r"open.crt: everybody may write it \(mode 0646\): chmod o-w"),
    ],
)
def test_a_file_or_name_that_is_no_good_is_refused_by_key(
    tmp_path: Path, keys: dict[str, Any], said: str
) -> None:
    """The message says which key, which file, and why."""
    AUTHORITY.server().write(tmp_path, "other")
    AUTHORITY.server(passphrase=b"tock").write(tmp_path, "locked")
    (tmp_path / "junk").write_text("no PEM")
    (tmp_path / "open.crt").write_bytes(SERVER.certificate)
    (tmp_path / "open.crt").chmod(0o646)
    if keys.get("key_file") == "locked.key":
        keys |= {"cert_file": "locked.crt"}
    with pytest.raises(ConfigError, match=said):
        server(tmp_path, **keys)


def test_text_between_the_certificates_of_an_authority_is_skipped(tmp_path: Path) -> None:
    """Comments in any encoding, a key, a block that was cut off: the certificates are trusted."""
    broken = b"-----BEGIN CERTIFICATE-----\nMIIB\n"
    parts = (
        "# Müller GmbH\n".encode(),
        AUTHORITY.certificate,
        b"# M\xfcller\r\n",
        SERVER.key,
        broken,
    )
    (tmp_path / "ca.pem").write_bytes(b"".join((*parts, Authority("other").certificate)))
    verifying = server(
        tmp_path, client_auth_type="RequireAndVerifyClientCert", client_ca_file="ca.pem"
    )
    assert len(verifying.get_ca_certs()) == 2


def test_a_key_that_everybody_may_read_is_named(tmp_path: Path) -> None:
    """It is used, for a Secret's volume is mounted so, and said with its mode; one for
    its owner and group is not.
    """
    notices: list[str] = []
    server(tmp_path, notices)
    assert notices == []
    loose = tmp_path / "loose.key"
    loose.write_bytes(SERVER.key)
    loose.chmod(0o644)
    server(tmp_path, notices, key_file="loose.key")
    assert len(notices) == 1
    assert "loose.key: everybody on this machine may read this secret (mode 0644)" in notices[0]


def test_certificate_key_and_authority_may_stand_in_the_file(tmp_path: Path) -> None:
    """Inline PEM, which touches no disk."""
    keys = TlsServer(cert=SERVER.certificate.decode(), key=SERVER.key.decode())
    assert shake(context(keys, tmp_path, print), client())[0] == "TLSv1.3"


@pytest.mark.parametrize("policy", ["", "NoClientCert", "RequestClientCert"])
def test_policies_that_verify_nobody_let_everybody_in(tmp_path: Path, policy: str) -> None:
    """With a strange certificate or none."""
    assert server(tmp_path, client_auth_type=policy).verify_mode == ssl.CERT_NONE


@pytest.mark.parametrize(
    ("san", "names", "let_in"),
    [
        (("DNS", "prom.example.com"), {"prom.example.com"}, True),
        (("DNS", "prom.example.com.evil.example"), {"prom.example.com"}, False),
        (("DNS", "*.example.com"), {"prom.example.com"}, False),
        (("email", "ops@example.com"), {"ops@example.com"}, True),
        (("URI", "spiffe://example.com/prom"), {"spiffe://example.com/prom"}, True),
        (("IP Address", "10.0.0.7"), {"10.0.0.7"}, True),
        (("IP Address", "FD00:0:0:0:0:0:0:7"), {"fd00::7"}, True),
        (("DirName", "prom.example.com"), {"prom.example.com"}, False),
    ],
)
def test_a_name_is_matched_letter_by_letter(
    san: tuple[str, str], names: set[str], let_in: bool
) -> None:
    """No wildcard, no suffix; DNS, IP, mail and URI alike, as exporter-toolkit does."""
    assert allowed({"subjectAltName": (san,)}, names) is let_in


@pytest.mark.parametrize(
    "certificate", [None, {}, {"subject": ((("commonName", "prom.example.com"),),)}]
)
def test_a_certificate_without_names_is_let_in_by_none(certificate: Any) -> None:
    """The common name does not count."""
    assert not allowed(certificate, {"prom.example.com"})
