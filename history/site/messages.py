"""The messages of Prometheus' remote read, as far as it is read here (prompb/remote.proto and
types.proto of Prometheus 3.14).

Described in Python, in a pool of their own: no compiler, no generated file, no clash with
another program's copy of them.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass

_ONE, _MANY = FieldDescriptorProto.LABEL_OPTIONAL, FieldDescriptorProto.LABEL_REPEATED
_INT64, _INT32 = FieldDescriptorProto.TYPE_INT64, FieldDescriptorProto.TYPE_INT32
_TEXT, _DOUBLE = FieldDescriptorProto.TYPE_STRING, FieldDescriptorProto.TYPE_DOUBLE
_BYTES = FieldDescriptorProto.TYPE_BYTES

# Message: its fields with number, type (of ours: by name) and whether there are many.
MESSAGES: dict[str, dict[str, tuple[int, int | str, int]]] = {
    "LabelMatcher": {
        "type": (1, _INT32, _ONE),
        "name": (2, _TEXT, _ONE),
        "value": (3, _TEXT, _ONE),
    },
    "Query": {
        "start_timestamp_ms": (1, _INT64, _ONE),
        "end_timestamp_ms": (2, _INT64, _ONE),
        "matchers": (3, "LabelMatcher", _MANY),
    },
    "ReadRequest": {"queries": (1, "Query", _MANY), "accepted_response_types": (2, _INT32, _MANY)},
    "Label": {"name": (1, _TEXT, _ONE), "value": (2, _TEXT, _ONE)},
    "Sample": {"value": (1, _DOUBLE, _ONE), "timestamp": (2, _INT64, _ONE)},
    # samples undecoded (history/site/samples.py): messages and bytes are alike on the wire
    "TimeSeries": {"labels": (1, "Label", _MANY), "samples": (2, _BYTES, _MANY)},
    "QueryResult": {"timeseries": (1, "TimeSeries", _MANY)},
    "ReadResponse": {"results": (1, "QueryResult", _MANY)},
    "Chunk": {"type": (3, _INT32, _ONE), "data": (4, _BYTES, _ONE)},
    "ChunkedSeries": {"labels": (1, "Label", _MANY), "chunks": (2, "Chunk", _MANY)},
    "ChunkedReadResponse": {"chunked_series": (1, "ChunkedSeries", _MANY)},
}
_PACKAGE = "tocsin.prompb"


@cache
def _pool() -> DescriptorPool:
    file = FileDescriptorProto(name="tocsin/prompb.proto", package=_PACKAGE, syntax="proto3")
    for message, fields in MESSAGES.items():
        described = file.message_type.add(name=message)
        for name, (number, kind, label) in fields.items():
            field = described.field.add(name=name, number=number, label=label)
            if isinstance(kind, str):
                field.type = FieldDescriptorProto.TYPE_MESSAGE
                field.type_name = f".{_PACKAGE}.{kind}"
            else:
                field.type = kind  # type: ignore[assignment]
    pool = DescriptorPool()
    pool.Add(file)
    return pool


def message(name: str) -> Any:
    """The class of a message."""
    return GetMessageClass(_pool().FindMessageTypeByName(f"{_PACKAGE}.{name}"))
