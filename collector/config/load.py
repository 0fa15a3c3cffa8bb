"""Loading: file < environment < flags, everything validated before anything is used."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from collector.config import dcgm_flags, file, tree
from collector.config.checks import check
from collector.config.dcgm_flags import DcgmFlag
from collector.config.decode import decode
from collector.config.raw_setting import ConfigError, RawSetting
from collector.config.settings import Config

DEFAULT_FILE = Path("/etc/tocsin/config.yaml")
FILE_VARIABLE = "TOCSIN_CONFIG_FILE"


@dataclass(frozen=True, slots=True)
class Inputs:
    """Where settings come from. ``file`` empty: $TOCSIN_CONFIG_FILE, or the default
    file where there is one.

    ``dcgm`` are dcgm-exporter's flags with their values and the words they were given in.
    """

    file: str = ""
    environ: Mapping[str, str] | None = None
    flags: Sequence[RawSetting] = ()
    dcgm: Sequence[tuple[DcgmFlag, str, str]] = ()
    default_file: Path = DEFAULT_FILE


@dataclass(frozen=True, slots=True)
class Loaded:
    """A valid configuration, the origin of each setting that was given, and what the
    user should know about it.
    """

    config: Config
    origins: Mapping[tree.Path, str]
    notices: tuple[str, ...]


def load(inputs: Inputs) -> Loaded:
    """Read everything again (also on SIGHUP). ConfigError lists all problems."""
    environ = inputs.environ or {}
    chosen = inputs.file or environ.get(FILE_VARIABLE, "")
    path = Path(chosen) if chosen else inputs.default_file
    from_file, problems = file.read(path) if chosen or _is_there(path) else ([], [])
    from_environ, more = _environment(environ)
    dcgm_environ, notices, refused = dcgm_flags.from_environ(
        environ, [flag for flag, _, _ in inputs.dcgm]
    )
    dcgm_line, more_notices, more_refused = dcgm_flags.translate(inputs.dcgm)
    config, origins, wrong = decode(
        [*from_file, *dcgm_environ, *from_environ, *dcgm_line, *inputs.flags]
    )
    problems = [*problems, *more, *refused, *more_refused, *wrong]
    if not wrong:  # cross checks speak of values, so all of them must have been read
        problems += [
            f"{origins.get(where, '.'.join(where))}: {what}" for where, what in check(config)
        ]
    if problems:
        raise ConfigError(*problems)
    return Loaded(config, origins, (*notices, *more_notices))


def _is_there(path: Path) -> bool:
    """Also where it may not be looked at, or its link leads nowhere: reading it says so."""
    try:
        path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return True
    return True


def _environment(environ: Mapping[str, str]) -> tuple[list[RawSetting], list[str]]:
    """TOCSIN_SECTION__KEY.

    One underscore only is somebody else's: Kubernetes sets TOCSIN_SERVICE_HOST
    for a service of that name.
    """
    variables = {s.variable: s.path for s in tree.settings().values()}
    mine = [
        (name, value)
        for name, value in environ.items()
        if name.startswith("TOCSIN_") and "__" in name
    ]
    given = [RawSetting(variables[name], value, name) for name, value in mine if name in variables]
    return given, [
        f"{name}: {file.unknown(name, set(variables))}" for name, _ in mine if name not in variables
    ]
