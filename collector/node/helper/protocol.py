"""One request and one reply over a Unix socket of whole messages (SOCK_SEQPACKET).

A request names a process and one of few things to know about it. The reply is an error number of
errno.h, 0 for none, then data; an open file or socket comes with it as a descriptor.
"""

from __future__ import annotations

import struct
from enum import IntEnum
from pathlib import Path

# systemd makes the folder for tocsin-helper.service; in a pod it is a volume of both containers.
SOCKET = Path("/run/tocsin-helper/socket")
MAX_TEXT = 4096  # bytes of a request's text: PATH_MAX of linux/limits.h
MAX_DATA = 1 << 16  # bytes of a reply
REQUEST = struct.Struct("!BI")  # kind, process id; then the text
REPLY = struct.Struct("!H")  # errno; then the data


class Kind(IntEnum):
    """What is asked. The comment says what the text of the request, and the reply, hold."""

    HELLO = 0  # reply: the names of the helper's capabilities
    MAPS = 1  # reply: the rows of /proc/PID/maps that name an NVIDIA device file or NCCL
    ENVIRON = 2  # reply: /proc/PID/environ, the variables that the agent uses and no other
    DEVICES = 3  # text: a major number; reply: minor numbers of open device files
    SOCKETS = 4  # reply: inodes of open sockets
    NETWORK = 5  # reply: the inode of the network namespace
    INSPECTOR = 6  # reply: the folder of NCCL Inspector's logs; descriptor: that folder
    FILE = 7  # text: a dump, an Inspector file or a mapped library; descriptor: for reading
    FIFO = 8  # text: the FIFO of Flight Recorder; descriptor: for writing
    WORKER = 9  # descriptor: connected to PyTorch's worker server
    RAS = 10  # text: a port; descriptor: connected to the process's own RAS server
    KUBELET = 11  # descriptor: connected to the kubelet's pod-resources socket
    FOLDER = 12  # reply: the folder in which the process runs, as it sees it
