"""Credentials files: what is wrong is named with the file, never with what is in it."""

from __future__ import annotations

from pathlib import Path

import pytest

from collector.bus.credentials import CredentialsError, CredentialsFile, load

# A seed that NATS' documentation shows as an example of a user's.
SEED = "SUACSSL3UAHUDXKFSNVUZRF5UHPMWZ6BFDTJ7M6USDXIEDNPPQYYYCU3VY"
FILE = """-----BEGIN NATS USER JWT-----
eyJ0eXAi.e30.c2ln
------END NATS USER JWT------

************************* IMPORTANT *************************
-----BEGIN USER NKEY SEED-----
{seed}
------END USER NKEY SEED------
"""


def written(tmp_path: Path, text: str) -> Path:
    """A file with this text."""
    file = tmp_path / "bus.creds"
    file.write_text(text, encoding="utf-8")
    return file


def test_a_file_gives_its_jwt_and_signs(tmp_path: Path) -> None:
    """The signature is base64 of 64 bytes, the same for the same nonce."""
    found = load(written(tmp_path, FILE.format(seed=SEED)))
    assert found.jwt == b"eyJ0eXAi.e30.c2ln"
    assert found.sign("abc") == found.sign("abc") != found.sign("abd")
    assert len(found.sign("abc")) == 88


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "no part 'NATS USER JWT'"),
        (FILE.partition("****")[0], "no part 'USER NKEY SEED'"),
        (FILE.format(seed=SEED[:-1] + "A"), "checksum differs"),
        (FILE.format(seed="SA" + SEED[2:]), "not a user's"),
        (FILE.format(seed="0189"), "not base32"),
        (FILE.format(seed="SUAA"), "not a user's"),
    ],
)
def test_a_damaged_file_is_named(tmp_path: Path, text: str, says: str) -> None:
    """And the seed stays out of the message."""
    file = written(tmp_path, text)
    with pytest.raises(CredentialsError, match=says) as caught:
        load(file)
    assert str(file) in str(caught.value)
    assert SEED[5:20] not in str(caught.value)


def test_credentials_that_were_changed_are_used_for_the_next_connection(tmp_path: Path) -> None:
    """A file that cannot be read just then leaves those read last."""
    file = written(tmp_path, FILE.format(seed=SEED))
    now = CredentialsFile(file)
    signed = now.sign("abc")
    written(tmp_path, FILE.format(seed=SEED).replace("c2ln", "bmV3"))
    assert (now.sign("abc"), now.jwt()) == (signed, bytearray(b"eyJ0eXAi.e30.bmV3"))
    written(tmp_path, "half of it")
    assert (now.sign("abc"), now.jwt()) == (signed, bytearray(b"eyJ0eXAi.e30.bmV3"))
    file.unlink()
    assert (now.sign("abc"), now.jwt()) == (signed, bytearray(b"eyJ0eXAi.e30.bmV3"))
