"""Answers of the API server that are none: too large, too deep, no JSON."""

from __future__ import annotations

import errno
import json
from pathlib import Path
from typing import Any

import pytest

from collector.config.gates import Kubernetes
from collector.integrations.kubernetes import api
from collector.integrations.kubernetes.api import Api, ApiError
from tests.collector.integrations.kubernetes.server import ApiServer

PATH = "/api/v1/nodes/gpu07"


def api_of(server: ApiServer) -> Api:
    """With the server's token."""
    token, ca = str(server.token_file), str(server.ca_file)
    return Api(Kubernetes(api=server.url, token_file=token, ca_file=ca))


def test_an_answer_that_is_too_large_is_called_that(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The part that was read is no JSON, which nobody would understand."""
    with ApiServer(tmp_path) as server:
        size = len(json.dumps(server.node))
        monkeypatch.setattr(api, "MAX_BYTES", size)
        assert api_of(server).get(PATH) == server.node
        monkeypatch.setattr(api, "MAX_BYTES", size - 1)
        with pytest.raises(ApiError, match=f"GET {PATH}: more than") as raised:
            api_of(server).get(PATH)
    assert raised.value.errno == errno.EFBIG


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"[]",
        b'{"a":',
        b'{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        b'{"a":' + b"9" * 5000 + b"}",
    ],
    ids=["empty", "list", "cut", "deep", "digits"],
)
def test_an_answer_that_is_no_object_is_an_error_of_that_request(content: bytes) -> None:
    """A custom resource may hold anything; it costs no other tenant's."""
    with pytest.raises(ApiError, match="no JSON object"):
        api._document(content, 200, "GET /x")


def test_an_error_names_the_address_or_the_file(tmp_path: Path) -> None:
    """Of a connection that is refused the address, of certificates that cannot be read the key and
    the file: the errors of Python name neither.
    """
    with ApiServer(tmp_path) as server:
        token, ca = str(server.token_file), str(server.ca_file)
        url = server.url
    gone = Kubernetes(api=url, token_file=token, ca_file=ca)
    with pytest.raises(ApiError, match=f"GET {url}{PATH}: .*refused"):
        Api(gone).get(PATH)
    file = f"{tmp_path}/absent.crt"
    with pytest.raises(ApiError, match=f"gates.kubernetes.ca_file {file}: No such file"):
        Api(Kubernetes(api=url, token_file=token, ca_file=file)).get(PATH)
    (tmp_path / "empty.crt").touch()
    with pytest.raises(ApiError, match=f"ca_file {tmp_path}/empty.crt: "):
        Api(Kubernetes(api=url, token_file=token, ca_file=f"{tmp_path}/empty.crt")).get(PATH)


def test_an_api_server_behind_a_path_is_asked_below_it(tmp_path: Path) -> None:
    """A proxy in front of many clusters has one for each."""
    with ApiServer(tmp_path) as server:
        token, ca = str(server.token_file), str(server.ca_file)
        url = f"{server.url}/k8s/clusters/c-1/"
        with pytest.raises(ApiError, match="HTTP 404"):  # this one is behind none
            Api(Kubernetes(api=url, token_file=token, ca_file=ca)).get(PATH)
        assert server.requests == [f"GET /k8s/clusters/c-1{PATH}"]


def test_a_conflict_is_an_answer_only_where_one_is_expected(tmp_path: Path) -> None:
    """A condition that was not written is an error, and no Node."""
    with ApiServer(tmp_path) as server:
        server.refuse = 409
        with pytest.raises(ApiError, match="HTTP 409"):
            api_of(server).patch_status("gpu07", {"type": "TocsinGpuProblem"})
        with pytest.raises(ApiError, match="HTTP 409"):
            api_of(server).get(PATH)
        assert not api_of(server).create("/x", {})
        assert not api_of(server).create_event({})
        assert not api_of(server).merge("/x", {})


def test_what_is_kept_takes_the_place_of_each_object() -> None:
    """As soon as it is decoded, so that the rest is never in memory together."""

    def keep(node: dict[str, Any]) -> dict[str, Any]:
        return {key: value for key, value in node.items() if key != "env"}

    document = api._document(b'{"items":[{"env":[1],"a":{"env":2}}]}', 200, "GET /x", keep=keep)
    assert document == {"items": [{"a": {}}]}
