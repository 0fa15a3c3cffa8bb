"""What deploy/kubernetes says, rendered by kubectl's kustomize and kept as golden files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from pipeline import child
from tests.parts import newer
from tests.sources import ROOT
from tests.wait import PATIENCE_S

Manifest = dict[str, Any]

KUBERNETES = ROOT / "deploy" / "kubernetes"
GOLDEN = ROOT / "tests" / "golden" / "kubernetes"
RENDERED = ("base", "full", "full-with-conditions")


def render(folder: str) -> str:
    """A folder's manifests as ``kubectl apply -k`` would send them."""
    kubectl = newer("kubectl", "kubectl")
    ended = child.run(
        [kubectl, "kustomize", str(KUBERNETES / folder)], timeout_s=PATIENCE_S, max_bytes=16 << 20
    )
    assert ended.returncode == 0, ended.stderr.decode()
    return ended.stdout.decode()


def manifests(path: Path) -> list[Manifest]:
    """Documents of a file."""
    return [
        document for document in yaml.safe_load_all(path.read_text(encoding="utf-8")) if document
    ]


def golden(folder: str) -> list[Manifest]:
    """A folder's manifests as they were rendered last."""
    return manifests(GOLDEN / f"{folder}.yaml")


def one(found: list[Manifest], kind: str) -> Manifest:
    """The manifest of a kind."""
    (only,) = [manifest for manifest in found if manifest["kind"] == kind]
    return only


def pod(folder: str) -> Manifest:
    """The pod of the DaemonSet."""
    spec: Manifest = one(golden(folder), "DaemonSet")["spec"]["template"]["spec"]
    return spec


def exporter(folder: str) -> Manifest:
    """The agent's container."""
    return container(pod(folder), "exporter")


def container(pod: Manifest, name: str) -> Manifest:
    """A container of a pod."""
    (found,) = [one for one in pod["containers"] if one["name"] == name]
    named: Manifest = found
    return named
