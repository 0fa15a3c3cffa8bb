"""A site that streams: remote read of a made-up fleet, as Prometheus sends it, from a process of
its own, so that what reads it is measured with its network and its decoding.

Chunks of 120 samples are encoded once and sent with other first times: as many samples as are asked
for cost the site little.
"""

from __future__ import annotations

import struct
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

import cramjam
import orjson

from benchmarks import history_import
from history.site.messages import message
from tests.history.test_streamed import frame, varint, xor_chunk

CHUNK, STEP_MS = 120, 15_000  # samples, as Prometheus'
SERIES_AT_ONCE = 64  # of a frame
CHUNK_MS = CHUNK * STEP_MS


@cache
def _tail(gpu: int) -> bytes:
    """A chunk from its second sample on, which says nothing of its time."""
    samples = [(number * STEP_MS, float((number * 7 + gpu) % 101 + 1)) for number in range(CHUNK)]
    head = 2 + len(varint(0)) + 8  # number of samples, first time, first value
    return xor_chunk(samples)[head:]


def _chunk(first_ms: int, gpu: int) -> bytes:
    value = struct.pack(">d", float(gpu % 101 + 1))
    return CHUNK.to_bytes(2) + varint(first_ms << 1) + value + _tail(gpu)


def answer(nodes: int, name: str, begin_ms: int, end_ms: int) -> Iterator[bytes]:
    """Frames of a metric, of all chunks that have samples of a span."""
    held = message("ChunkedReadResponse")()
    for node in range(nodes):
        offset = (node * 997) % STEP_MS
        first = begin_ms - (begin_ms - offset) % CHUNK_MS
        for gpu in range(history_import.GPUS):
            series = held.chunked_series.add()
            for label, value in sorted(history_import.labels(name, node, gpu).items()):
                series.labels.add(name=label, value=value)
            for ms in range(first, end_ms, CHUNK_MS):
                series.chunks.add(type=1, data=_chunk(ms, gpu))
            if len(held.chunked_series) == SERIES_AT_ONCE:
                yield frame(held.SerializeToString())
                held = message("ChunkedReadResponse")()
    if held.chunked_series:
        yield frame(held.SerializeToString())


class _Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        path = urlsplit(self.path).path
        data = {"version": "3.0.0"} if path.endswith("buildinfo") else history_import.names()
        self._send("application/json", [orjson.dumps({"status": "success", "data": data})])

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        asked = message("ReadRequest").FromString(bytes(cramjam.snappy.decompress_raw(body)))
        query = asked.queries[0]
        name = next(one.value for one in query.matchers if one.name == "__name__")
        frames = (
            answer(int(sys.argv[1]), name, query.start_timestamp_ms, query.end_timestamp_ms + 1)
            if name in history_import.names()
            else iter(())
        )
        self._send("application/x-streamed-protobuf", frames)

    def _send(self, kind: str, parts: Iterator[bytes] | list[bytes]) -> None:
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.end_headers()
        for part in parts:
            self.wfile.write(part)

    def log_message(self, *_: object) -> None:
        """Nothing."""


@contextmanager
def streaming(nodes: int) -> Iterator[str]:
    """The URL of such a site."""
    argv = [sys.executable, "-m", "benchmarks._streaming_site", str(nodes)]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        try:
            yield process.stdout.readline().strip()
        finally:
            process.terminate()


if __name__ == "__main__":
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    print(f"http://127.0.0.1:{server.server_port}", flush=True)
    server.serve_forever()
