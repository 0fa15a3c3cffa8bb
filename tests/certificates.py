"""Certificates for tests: an authority made on the spot, and what it signs."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID


@dataclass(frozen=True, slots=True)
class Pair:
    """A certificate and its key, in PEM."""

    certificate: bytes
    key: bytes

    def write(self, folder: Path, name: str) -> tuple[Path, Path]:
        """As ``name.crt`` and ``name.key`` (mode 0600), each put in place at once."""
        paths = folder / f"{name}.crt", folder / f"{name}.key"
        for path, content in zip(paths, (self.certificate, self.key), strict=True):
            fresh = path.with_suffix(".new")
            fresh.touch(0o600)
            fresh.write_bytes(content)
            fresh.replace(path)
        return paths


class Authority:
    """Signs certificates; its own is ``certificate``, in PEM."""

    def __init__(self, name: str = "authority") -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _named(name)
        own = _builder(self._name, self._name, self._key, timedelta(days=2))
        self._certificate = own.add_extension(
            x509.BasicConstraints(ca=True, path_length=0), critical=True
        ).sign(self._key, hashes.SHA256())
        self.certificate = self._certificate.public_bytes(Encoding.PEM)
        self._words = name

    def __str__(self) -> str:
        return self._words

    def server(self, *, passphrase: bytes = b"") -> Pair:
        """For 127.0.0.1 and localhost."""
        return self._sign(
            "node",
            ["127.0.0.1", "localhost"],
            ExtendedKeyUsageOID.SERVER_AUTH,
            passphrase=passphrase,
        )

    def client(self, *names: str, days: float = 1) -> Pair:
        """With these names: IP addresses, URIs, mail addresses, else DNS names.

        Negative ``days`` have gone by.
        """
        return self._sign("client", names, ExtendedKeyUsageOID.CLIENT_AUTH, days=days)

    def _sign(
        self,
        subject: str,
        names: tuple[str, ...] | list[str],
        use: x509.ObjectIdentifier,
        *,
        days: float = 1,
        passphrase: bytes = b"",
    ) -> Pair:
        key = ec.generate_private_key(ec.SECP256R1())
        builder = _builder(_named(subject), self._name, key, timedelta(days=days))
        builder = builder.add_extension(x509.ExtendedKeyUsage([use]), critical=False)
        if names:
            builder = builder.add_extension(
                x509.SubjectAlternativeName([_general(name) for name in names]), critical=False
            )
        encryption = BestAvailableEncryption(passphrase) if passphrase else NoEncryption()
        return Pair(
            builder.sign(self._key, hashes.SHA256()).public_bytes(Encoding.PEM),
            key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption),
        )


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, lasts: timedelta
) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(min(now, now + lasts) - timedelta(hours=1))
        .not_valid_after(now + lasts)
    )


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _general(name: str) -> x509.GeneralName:
    if "://" in name:
        return x509.UniformResourceIdentifier(name)
    if "@" in name:
        return x509.RFC822Name(name)
    try:
        return x509.IPAddress(ip_address(name))
    except ValueError:
        return x509.DNSName(name)
