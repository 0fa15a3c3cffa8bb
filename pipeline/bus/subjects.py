"""Names on the bus: subjects of a host, in an alphabet that NATS takes.

A token of a subject holds no dot, space, ``*`` or ``>`` (NATS, "Subject-Based Messaging"). Host
names have dots: each character outside letters, digits and ``-`` becomes ``_`` and two hexadecimal
digits of each of its UTF-8 bytes, so that two hosts never share a subject.
"""

from __future__ import annotations

import re

ROOT = "tocsin.v1"
PLAIN = re.compile(rb"[A-Za-z0-9-]")


def token(name: str) -> str:
    """A name as one token.

    >>> token("gpu-1.rack2"), token("a_b"), token("a.b") == token("a_2eb")
    ('gpu-1_2erack2', 'a_5fb', False)
    """
    return "".join(
        byte.decode() if PLAIN.fullmatch(byte) else f"_{byte[0]:02x}"
        for byte in (bytes([value]) for value in name.encode())
    )


def frames(cluster: str, host: str) -> str:
    """Subject of a host's batches.

    >>> frames("c1", "node01")
    'tocsin.v1.c1.frames.node01'
    """
    return f"{ROOT}.{token(cluster)}.frames.{token(host)}"


def inbox(host: str) -> str:
    """Prefix of the subjects at which a host gets its acknowledgements: no other host may read
    them, so each has its own.
    """
    return f"_INBOX_{token(host)}"
