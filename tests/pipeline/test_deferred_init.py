"""Packages whose __init__ waits, in processes of their own."""

from __future__ import annotations

import sys
from importlib.metadata import version
from pathlib import Path

import pytest

from pipeline import child
from tests.sources import ROOT
from tests.wait import PATIENCE_S

pytestmark = pytest.mark.slow


def run(code: str, folder: Path = ROOT) -> str:
    """What a program prints; it imports from the folder too."""
    head = f"import sys; sys.path[:0] = [{str(folder)!r}, {str(ROOT)!r}]\n"
    ran = child.run([sys.executable, "-I", "-c", head + code], timeout_s=PATIENCE_S)
    assert ran.returncode == 0, ran.stderr.decode()
    return ran.stdout.decode().strip()


def test_the_server_is_imported_without_the_client_of_the_pinned_aiohttp() -> None:
    """Of the version that is installed, with its version in the Server header."""
    code = (
        "import collector.web\n"
        "from aiohttp.http import SERVER_SOFTWARE\n"
        "print(SERVER_SOFTWARE.rpartition('/')[2], 'aiohttp.client' in sys.modules)"
    )
    assert run(code) == f"{version('aiohttp')} False"


def test_the_client_is_there_for_who_asks_for_it() -> None:
    """The package initialises itself with the first name that is asked for, once."""
    code = (
        "import collector.web, aiohttp\n"
        "from aiohttp import ClientSession, web\n"
        "import aiohttp.client\n"
        "print(ClientSession is aiohttp.client.ClientSession, aiohttp.web is web,\n"
        "      'TCPConnector' in aiohttp.__all__, hasattr(aiohttp, 'banana'))"
    )
    assert run(code) == "True True True False"


def test_process_metrics_come_without_the_servers_of_prometheus_client() -> None:
    """And the rest of the package works when it is asked for."""
    code = (
        "import pipeline.exposition\n"
        "print('http.server' in sys.modules)\n"
        "import prometheus_client\n"
        "print(prometheus_client.Counter('a', 'b').describe()[0].name)"
    )
    assert run(code).split() == ["False", "a"]


def test_an_init_that_is_asked_for_by_threads_runs_once(tmp_path: Path) -> None:
    """Modules of the package that its __init__ imports may import names of it as usual; looking
    for names that only tools look for initialises nothing.
    """
    package = tmp_path / "shy"
    package.mkdir()
    (package / "__init__.py").write_text(
        '__version__ = "7.1"\n'
        "runs = globals().get('runs', 0) + 1\n"
        "from shy.inner import twice\n"
        "from shy import inner\n"
    )
    (package / "inner.py").write_text("from shy import __version__\ntwice = __version__ * 2\n")
    code = (
        "from concurrent.futures import ThreadPoolExecutor\n"
        "from pipeline.deferred_init import defer_init\n"
        "defer_init('shy'); defer_init('no_such_package'); defer_init('json')\n"
        "import shy, shy.inner\n"
        "early = 'runs' in vars(shy), hasattr(shy, '__wrapped__'), shy.__version__\n"
        "with ThreadPoolExecutor(8) as pool:\n"
        "    seen = set(pool.map(lambda _: shy.twice, range(64)))\n"
        "print(*early, 'runs' in vars(shy), *seen, shy.runs)"
    )
    assert run(code, tmp_path) == "False False 7.1 True 7.17.1 1"


def test_an_init_that_fails_is_tried_again(tmp_path: Path) -> None:
    """As an import that failed is."""
    package = tmp_path / "shy"
    package.mkdir()
    (package / "__init__.py").write_text(
        "import os\nif not os.environ.get('READY'): raise ImportError('not ready')\nvalue = 1\n"
    )
    code = (
        "import os\n"
        "from pipeline.deferred_init import defer_init\n"
        "defer_init('shy')\n"
        "import shy\n"
        "try: shy.value\n"
        "except ImportError as error: print(error)\n"
        "os.environ['READY'] = '1'\n"
        "print(shy.value)"
    )
    assert run(code, tmp_path).splitlines() == ["not ready", "1"]
