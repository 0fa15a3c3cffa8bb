"""From the keys of ``tls_server_config`` to an SSLContext, and whom its
client certificates let in.
"""

from __future__ import annotations

import os
import re
import ssl
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from ipaddress import ip_address
from pathlib import Path
from typing import Any

from collector.config.raw_setting import ConfigError
from collector.config.web.content import content
from collector.config.web.settings import TlsServer

MAX_BYTES = 1 << 20  # of a file of certificates: a bundle of public authorities is 0.2 MB

VERSIONS = {"TLS12": ssl.TLSVersion.TLSv1_2, "TLS13": ssl.TLSVersion.TLSv1_3}

# Go's names (crypto/tls.CipherSuites) to OpenSSL's. Those of TLS 1.3 are
# always on, in both libraries.
TLS13_SUITES = ("TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256")
SUITES = {
    f"TLS_ECDHE_{key}_WITH_{go}": f"ECDHE-{key}-{openssl}"
    for key in ("ECDSA", "RSA")
    for go, openssl in (
        ("AES_128_CBC_SHA", "AES128-SHA"),
        ("AES_256_CBC_SHA", "AES256-SHA"),
        ("AES_128_GCM_SHA256", "AES128-GCM-SHA256"),
        ("AES_256_GCM_SHA384", "AES256-GCM-SHA384"),
        ("CHACHA20_POLY1305_SHA256", "CHACHA20-POLY1305"),
    )
}
CURVES = {
    "CurveP256": "prime256v1",
    "CurveP384": "secp384r1",
    "CurveP521": "secp521r1",
    "X25519": "X25519",
}

# Go's AppendCertsFromPEM takes these blocks, and passes over everything else in the file.
_CERTIFICATE = re.compile(
    rb"^-----BEGIN ((?:X509 |TRUSTED )?CERTIFICATE)-----[^-]*-----END \1-----", re.MULTILINE
)

Notice = Callable[[str], None]


def context(tls: TlsServer, folder: Path, notice: Notice) -> ssl.SSLContext:
    """A server's context; ConfigError says what is wrong with a key or its file.

    Relative files stand beside the configuration.

    ``notice`` gets what works and should not be left so. Blocks on the disk.
    """
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    made.options |= ssl.OP_NO_RENEGOTIATION
    if not tls.prefer_server_cipher_suites:
        made.options &= ~ssl.OP_CIPHER_SERVER_PREFERENCE
    made.minimum_version, made.maximum_version = (
        VERSIONS[tls.min_version],
        VERSIONS[tls.max_version],
    )
    made.set_alpn_protocols(["http/1.1"])
    _ciphers(made, tls.cipher_suites)
    _curves(made, tls.curve_preferences)
    _certificate(made, tls, folder, notice)
    _clients(made, tls, folder)
    return made


def files(tls: TlsServer, folder: Path) -> list[Path]:
    """The files that a configuration names."""
    return [folder / name for name in (tls.cert_file, tls.key_file, tls.client_ca_file) if name]


def allowed(certificate: Mapping[str, Any] | None, names: Collection[str]) -> bool:
    """Whether a client certificate (as ``getpeercert`` gives it) carries one of these names: DNS,
    IP, e-mail or URI, letter by letter.
    """
    wanted = {_canonical(name) for name in names}
    held = (certificate or {}).get("subjectAltName", ())
    return any(
        _canonical(str(name)) in wanted
        for kind, name in held
        if kind in ("DNS", "IP Address", "email", "URI")
    )


def _canonical(name: str) -> str:
    """An IP address in its one shortest form: OpenSSL writes those of version 6 out in full."""
    try:
        return str(ip_address(name))
    except ValueError:
        return name


def _ciphers(made: ssl.SSLContext, names: Collection[str] | None) -> None:
    if not names:
        return
    strange = [name for name in names if name not in SUITES and name not in TLS13_SUITES]
    if strange:
        raise ConfigError(
            f"tls_server_config.cipher_suites: {strange[0]!r} is not one of "
            f"{', '.join((*SUITES, *TLS13_SUITES))}"
        )
    older = [SUITES[name] for name in names if name in SUITES]
    if older:
        made.set_ciphers(":".join(older))
    elif made.maximum_version == ssl.TLSVersion.TLSv1_2:
        raise ConfigError(
            "tls_server_config.cipher_suites: names none for TLS12, which max_version requires"
        )
    else:  # only those of TLS 1.3: nothing is left that an older version could use
        made.minimum_version = ssl.TLSVersion.TLSv1_3


def _curves(made: ssl.SSLContext, names: Collection[str] | None) -> None:
    if not names:
        return
    where = "tls_server_config.curve_preferences"
    strange = [name for name in names if name not in CURVES]
    if strange:
        raise ConfigError(f"{where}: {strange[0]!r} is not one of {', '.join(CURVES)}")
    if set(names) == set(CURVES):
        return  # all that there are
    if len(names) > 1:
        raise ConfigError(
            f"{where}: one curve can be demanded, or all of them; leave the key out "
            "to take OpenSSL's own"
        )
    made.set_ecdh_curve(CURVES[next(iter(names))])


def _certificate(made: ssl.SSLContext, tls: TlsServer, folder: Path, notice: Notice) -> None:
    chain = _content("cert_file", folder / tls.cert_file) if tls.cert_file else tls.cert.encode()
    key = (
        _content("key_file", folder / tls.key_file, exposed=notice)
        if tls.key_file
        else tls.key.encode()
    )
    try:
        with _as_file(chain) as chain_path, _as_file(key) as key_path:
            made.load_cert_chain(chain_path, key_path, password=_encrypted)
    except ssl.SSLError as error:
        pair = (
            " and ".join(str(folder / f) for f in (tls.cert_file, tls.key_file) if f)
            or "cert and key"
        )
        why = (
            "they do not belong together"
            if "MISMATCH" in (error.reason or "")
            else "no certificate with its key in PEM"
        )
        raise ConfigError(f"tls_server_config: {pair}: {why}") from error


def _clients(made: ssl.SSLContext, tls: TlsServer, folder: Path) -> None:
    if tls.client_auth_type not in ("VerifyClientCertIfGiven", "RequireAndVerifyClientCert"):
        return  # RequestClientCert asks for one and lets everybody in, with or without
    pem = (
        _content("client_ca_file", folder / tls.client_ca_file)
        if tls.client_ca_file
        else tls.client_ca.encode()
    )
    blocks = [block[0] for block in _CERTIFICATE.finditer(pem)]  # comments may be in any encoding
    try:
        made.load_verify_locations(cadata=b"\n".join(blocks).decode("ascii"))
    except (ssl.SSLError, ValueError) as error:
        raise ConfigError(
            f"tls_server_config.client_ca_file: {tls.client_ca_file or 'client_ca'}: "
            "no certificate in PEM"
        ) from error
    made.verify_flags |= (
        ssl.VERIFY_X509_PARTIAL_CHAIN
    )  # as Go: what is in the file is trusted, a root or not
    required = tls.client_auth_type == "RequireAndVerifyClientCert"
    made.verify_mode = ssl.CERT_REQUIRED if required else ssl.CERT_OPTIONAL


def _content(key: str, file: Path, exposed: Notice | None = None) -> bytes:
    return content(file, f"tls_server_config.{key}: {file}", MAX_BYTES, exposed=exposed)


@contextmanager
def _as_file(content: bytes) -> Iterator[str]:
    """A path with this content in memory, for OpenSSL reads certificates and keys from paths only;
    a key never touches a disk.
    """
    descriptor = os.memfd_create("tocsin-tls", os.MFD_CLOEXEC)
    try:
        with open(descriptor, "wb", closefd=False) as stream:
            stream.write(content)
        yield f"/proc/self/fd/{descriptor}"
    finally:
        os.close(descriptor)


def _encrypted() -> str:
    """Asked for only where the key has a passphrase: nobody is there to type one."""
    raise ConfigError(
        "tls_server_config.key_file: the key is encrypted; a server needs one without a passphrase"
    )
