"""A kubelet's pod-resources server over its real protocol: grpcio's server, and its
messages built field by field.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grpc

# ListPodResourcesResponse of k8s.io/kubelet's api.proto (v1) for pod ml/train-0, container main,
# nvidia.com/gpu = GPU-0 on NUMA node 1, cpu_ids 0, 1 and 300, and claim ml/claim of device gpu-0 in
# pool node1 of gpu.nvidia.com.
GOLDEN = bytes.fromhex(
    "0a670a07747261696e2d3012026d6c1a580a046d61696e121d0a0e6e76696469612e636f6d2f67707512054750552d301a040a0208011a040001ac02"
    "2a2b1205636c61696d1a026d6c221e120e6770752e6e76696469612e636f6d1a056e6f64653122056770752d30"
)

Handler = Callable[[bytes, grpc.ServicerContext], bytes]


@contextmanager
def serving(
    socket: Path, handlers: Mapping[str, Handler | bytes], service: str = "v1.PodResourcesLister"
) -> Iterator[grpc.Server]:
    """A server behind a socket that answers methods with bytes, or as a function says; every other
    method is UNIMPLEMENTED.
    """
    server = grpc.server(ThreadPoolExecutor(4))
    methods = {
        name: grpc.unary_unary_rpc_method_handler(_function(handler))
        for name, handler in handlers.items()
    }
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, methods),))
    server.add_insecure_port(f"unix:{socket}")
    server.start()
    try:
        yield server
    finally:
        server.stop(0).wait()


def _function(handler: Handler | bytes) -> Handler:
    return handler if callable(handler) else lambda _request, _context: handler


def message(*fields: tuple[int, Any]) -> bytes:
    """A message of these fields: text and bytes with their length, integers as varints."""
    out = b""
    for number, value in fields:
        if isinstance(value, int):
            out += _varint(number << 3) + _varint(value)
        else:
            data = value.encode() if isinstance(value, str) else value
            out += _varint(number << 3 | 2) + _varint(len(data)) + data
    return out


def listing(*pods: bytes) -> bytes:
    """ListPodResourcesResponse."""
    return message(*((1, pod) for pod in pods))


def pod(
    name: str,
    ids: Iterable[str] = (),
    *,
    namespace: str = "ml",
    container: str = "main",
    resource: str = "nvidia.com/gpu",
    claim: bytes | None = None,
) -> bytes:
    """PodResources with one container that has devices of one resource, and perhaps a claim."""
    devices = message((1, resource), *((2, i) for i in ids))
    inside = message((1, container), (2, devices), *(((5, claim),) if claim else ()))
    return message((1, name), (2, namespace), (3, inside))


def claim(
    name: str,
    device: str,
    *,
    namespace: str = "ml",
    driver: str = "gpu.nvidia.com",
    pool: str = "node1",
) -> bytes:
    """DynamicResource with one device."""
    return message((2, name), (3, namespace), (4, message((2, driver), (3, pool), (4, device))))


def _varint(value: int) -> bytes:
    out = b""
    while value > 0x7F:
        out += bytes([value & 0x7F | 0x80])
        value >>= 7
    return out + bytes([value])
