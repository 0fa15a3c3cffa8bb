"""Packages of others whose ``__init__`` imports far more than the modules of them that are used."""

from __future__ import annotations

import re
import sys
import threading
from importlib.machinery import ModuleSpec
from importlib.util import find_spec, module_from_spec
from types import ModuleType

_VERSION = re.compile(r'^__version__ = "([^"\n]+)"$', re.MULTILINE)


def defer_init(package: str) -> None:
    """From now on ``import package.module`` imports that module and what it needs itself; the
    package's own ``__init__`` runs when a name of it is first asked for (PEP 562).

    To be called before the package's first import; does nothing after it, or where there is no
    such package. ``__version__`` is read from the source, so that modules of the package may use
    it.
    """
    if package in sys.modules:
        return
    spec = find_spec(package)
    if spec is None or spec.loader is None or spec.submodule_search_locations is None:
        return
    module = module_from_spec(spec)
    module.__dict__["__getattr__"] = _Init(module, spec)
    sys.modules[package] = module


class _Init:
    """A module's ``__getattr__``: called with each name that the module does not have."""

    def __init__(self, module: ModuleType, spec: ModuleSpec) -> None:
        self._module, self._spec = module, spec
        self._lock, self._runs = threading.RLock(), False

    def __call__(self, name: str) -> object:
        """The attribute, once the package is initialised. AttributeError where it has none."""
        found = self._version() if name == "__version__" else None
        if found is not None:
            return found
        # A module of the package is imported by the caller, and no tool that looks for
        # __wrapped__ or the like initialises anything.
        hidden = name.startswith("__") and name not in {"__all__", "__version__"}
        if not hidden and find_spec(f"{self._spec.name}.{name}") is None and self._run():
            return getattr(self._module, name)
        raise AttributeError(f"module {self._spec.name!r} has no attribute {name!r}")

    def _run(self) -> bool:
        """Run ``__init__`` once; False within itself."""
        with self._lock:
            if self._runs:
                return False
            if "__getattr__" in self._module.__dict__:
                assert self._spec.loader is not None  # noqa: S101 - see defer_init
                self._runs = True
                try:
                    self._spec.loader.exec_module(self._module)
                finally:
                    self._runs = False
                if self._module.__dict__.get("__getattr__") is self:
                    del self._module.__dict__["__getattr__"]
            return True

    def _version(self) -> str | None:
        source = getattr(self._spec.loader, "get_source", lambda _: None)(self._spec.name)
        found = _VERSION.search(source or "")
        return found[1] if found else None
