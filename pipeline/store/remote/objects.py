"""Where sealed files go: S3-compatible stores, Google Cloud Storage, Azure, or a shared directory.

The only home of obstore.

One small interface for all: create-only put, size, list, get. Every refusal has a cause from a
short list (``CAUSES``), so that the uploader and its metrics need not know whose error it was. No
message shows a secret.
"""

from __future__ import annotations

import configparser
import contextlib
import errno
import importlib
import os
import re
from collections.abc import Callable, Iterator, Mapping
from datetime import timedelta
from pathlib import Path
from stat import S_ISREG
from typing import Any, Protocol
from urllib.parse import unquote, urlsplit

from pipeline.store.files.layout import files_below, sync_folder
from pipeline.store.remote.upload_plan import Target, scheme

# AWS' "Error responses" (S3 API reference); the same codes are used by compatible stores.
_SKEW_CODES = ("RequestTimeTooSkewed", "RequestExpired")
_DENIED_CODES = (
    "ExpiredToken",
    "InvalidToken",
    "InvalidAccessKeyId",
    "SignatureDoesNotMatch",
    "AuthorizationHeaderMalformed",
)
_BY_STATUS = {401: "denied", 403: "denied", 404: "no_bucket", 429: "throttled", 503: "throttled"}
_STATUS = re.compile(r"status code: (\d{3})")
_SIGNATURE = re.compile(r"(?i)\b(sig|x-amz-[a-z-]+|signature)=[^&\s\"']+")
MESSAGE_CHARACTERS = 500
# What link(2) answers where a file system has no hard links.
WITHOUT_LINKS = frozenset((errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK))


class RefusedError(RuntimeError):
    """A store did not do what was asked; ``cause`` is one of ``CAUSES``."""

    def __init__(self, cause: str, message: str) -> None:
        super().__init__(message)
        self.cause = cause


class WriteOnce(Protocol):
    """All that an agent asks of a store: create, and see what is there.

    Everything raises RefusedError.
    """

    def put(self, key: str, file: Path) -> bool:
        """Create an object whole; False where the name is taken already, in which case nothing is
        changed. It may be this call that took it, where its first answer was lost.
        """
        ...

    def size(self, key: str) -> int | None:
        """Size of an object in bytes; None where that may not be asked.

        RefusedError (no_bucket) where it is not there.
        """
        ...


class Objects(WriteOnce, Protocol):
    """A store of objects by name. Everything raises RefusedError."""

    def names(self, prefix: str) -> Iterator[str]:
        """Names of all objects below a prefix that ends in a slash."""
        ...

    def get(self, key: str) -> bytes:
        """A whole object."""
        ...

    def sizes(self, prefix: str) -> Iterator[tuple[str, int]]:
        """Names as ``names`` gives them, with sizes in bytes."""
        ...

    def part(self, key: str, start: int, length: int) -> bytes:
        """Some bytes of an object."""
        ...

    def remove(self, key: str) -> None:
        """Remove an object; nothing where there is none.

        Agents never do, and need no permission for it: the cluster's compactor does.
        """
        ...


def _local(file: Path) -> bytes:
    """A file of this machine. RefusedError (local), which says nothing about the store."""
    try:
        return file.read_bytes()
    except OSError as error:
        raise RefusedError("local", str(error)) from error


def open_objects(target: Target) -> Objects:
    """The store of a target.

    Nothing is asked of it yet. RefusedError (configuration) where it cannot be opened at all.
    """
    try:
        kind = scheme(target.url)
        return (
            Directory(Path(unquote(urlsplit(target.url).path)))
            if kind == "directory"
            else Bucket(target, kind)
        )
    except (ValueError, OSError, configparser.Error) as error:
        raise RefusedError("configuration", str(error)) from error


class Directory:
    """A directory that other machines see too (NFS, Lustre).

    It must exist: a mount that is missing must not fill the local disk.
    """

    def __init__(self, root: Path) -> None:
        self._root = root

    def put(self, key: str, file: Path) -> bool:
        """Scratch file, fsync, then a hard link, which fails where the name is taken."""
        data, target = _local(file), self._root / key
        try:
            self._there()
            if target.exists():
                return False
            target.parent.mkdir(parents=True, exist_ok=True)
            scratch = target.with_name(f".{target.name}.{os.getpid()}.new")
            try:
                return self._copy(data, scratch, target)
            finally:
                scratch.unlink(missing_ok=True)
        except OSError as error:
            raise self._refused(error) from error

    def _copy(self, data: bytes, scratch: Path, target: Path) -> bool:
        with scratch.open("wb") as out:
            out.write(data)
            out.flush()
            os.fsync(out.fileno())
        try:
            os.link(scratch, target)
        except FileExistsError:
            return False
        except OSError as error:
            if error.errno not in WITHOUT_LINKS:
                raise
            # names are unique to this node, so no other process creates this one
            scratch.replace(target)
        sync_folder(target.parent)
        return True

    def size(self, key: str) -> int | None:
        """Size of a file."""
        try:
            return (self._root / key).stat().st_size
        except OSError as error:
            raise self._refused(error) from error

    def names(self, prefix: str) -> Iterator[str]:
        """Files below a folder; scratch files are not seen."""
        yield from (name for name, _ in self.sizes(prefix))

    def sizes(self, prefix: str) -> Iterator[tuple[str, int]]:
        """The same with their sizes."""
        try:
            self._there()
            sized = []
            # what a process may not see is not the same as nothing
            for path in files_below(self._root / prefix, all_of_them=True):
                with contextlib.suppress(FileNotFoundError):  # removed by a compactor meanwhile
                    stat = path.stat()
                    if S_ISREG(stat.st_mode) and not path.name.startswith("."):
                        sized.append((path.relative_to(self._root).as_posix(), stat.st_size))
        except OSError as error:
            raise self._refused(error) from error
        yield from sorted(sized)

    def get(self, key: str) -> bytes:
        """A file."""
        try:
            return (self._root / key).read_bytes()
        except OSError as error:
            raise self._refused(error) from error

    def part(self, key: str, start: int, length: int) -> bytes:
        """Some bytes of a file."""
        try:
            with (self._root / key).open("rb") as file:
                file.seek(start)
                return file.read(length)
        except OSError as error:
            raise self._refused(error) from error

    def remove(self, key: str) -> None:
        """Remove a file, and its folder where that was the last one."""
        try:
            (self._root / key).unlink(missing_ok=True)
        except OSError as error:
            raise self._refused(error) from error
        with contextlib.suppress(OSError):
            (self._root / key).parent.rmdir()

    def _there(self) -> None:
        if not self._root.is_dir():
            raise RefusedError(
                "no_bucket", f"directory {self._root} does not exist (is it mounted?)"
            )

    @staticmethod
    def _refused(error: OSError) -> RefusedError:
        cause = "denied" if isinstance(error, PermissionError) else "server_error"
        return RefusedError(
            "no_bucket" if isinstance(error, FileNotFoundError) else cause, str(error)
        )


class Bucket:
    """A bucket or container, through obstore."""

    def __init__(self, target: Target, kind: str) -> None:
        try:
            self._api: Any = importlib.import_module("obstore")
            stores: Any = importlib.import_module("obstore.store")
        except ImportError as error:
            raise RefusedError(
                "configuration", f"{target.url} needs the package obstore (tocsin[objects])"
            ) from error
        given, self._secrets = credentials(target, kind)
        make: dict[str, Callable[..., Any]] = {
            "s3": stores.S3Store,
            "gs": stores.GCSStore,
            "az": stores.AzureStore,
        }
        try:
            self._store = make[kind].from_url(target.url, **_options(target, kind), **given)  # type: ignore[attr-defined]
        except self._api.exceptions.BaseError as error:
            raise RefusedError("configuration", self._words(error)) from error

    def put(self, key: str, file: Path) -> bool:
        """One conditional request (If-None-Match: *): whole or not at all.

        obstore repeats what the store refused for a moment, but not what broke on the way, as it
        cannot know whether it was done. Here the second try would find it done, and say
        False, so a broken connection is tried once more.
        """
        data = _local(file)
        try:
            return self._create(key, data)
        except RefusedError as error:
            if error.cause != "unreachable":
                raise
            return self._create(key, data)

    def _create(self, key: str, data: bytes) -> bool:
        try:
            self._ask(lambda: self._api.put(self._store, key, data, mode="create"))
        except FileExistsError:
            return False
        return True

    def size(self, key: str) -> int | None:
        """Size by HEAD; a write-only prefix does not tell."""
        try:
            return int(self._ask(lambda: self._api.head(self._store, key))["size"])
        except RefusedError as error:
            if error.cause == "denied":
                return None
            raise

    def names(self, prefix: str) -> Iterator[str]:
        """All names below a prefix."""
        yield from (name for name, _ in self.sizes(prefix))

    def sizes(self, prefix: str) -> Iterator[tuple[str, int]]:
        """The same with their sizes, as the listing gives them."""
        found: list[tuple[str, int]] = []

        def gather() -> None:
            for page in self._api.list(self._store, prefix):
                found.extend((entry["path"], int(entry["size"])) for entry in page)

        self._ask(gather)
        yield from sorted(found)

    def get(self, key: str) -> bytes:
        """A whole object in memory."""
        return bytes(self._ask(lambda: self._api.get(self._store, key).bytes()))

    def part(self, key: str, start: int, length: int) -> bytes:
        """Some bytes, by a range request."""
        return bytes(
            self._ask(lambda: self._api.get_range(self._store, key, start=start, length=length))
        )

    def remove(self, key: str) -> None:
        """One request. Google and Azure answer 404 where another compactor, or a request whose
        answer was lost, has removed it.
        """

        def delete() -> None:
            with contextlib.suppress(FileNotFoundError, self._api.exceptions.NotFoundError):
                self._api.delete(self._store, key)

        self._ask(delete)

    def _ask(self, question: Callable[[], Any]) -> Any:
        """The answer; FileExistsError where a name is taken, RefusedError for the rest."""
        errors = self._api.exceptions
        try:
            return question()
        except errors.AlreadyExistsError as error:
            raise FileExistsError from error
        except (errors.BaseError, FileNotFoundError, ValueError, OSError) as error:
            raise RefusedError(
                cause_of(type(error).__name__, str(error)), self._words(error)
            ) from None

    def _words(self, error: Exception) -> str:
        """What happened in one line without secrets. obstore appends its own data
        structures, which are of no use here.
        """
        text = " ".join(str(error).partition("\n\nDebug source")[0].split())
        for secret in self._secrets:
            text = text.replace(secret, "***")
        return _SIGNATURE.sub(r"\1=***", text)[:MESSAGE_CHARACTERS]


def cause_of(kind: str, text: str) -> str:
    """Which of ``CAUSES`` an error of obstore is, by its class and words.

    >>> cause_of(
    ...     "GenericError", "Server returned non-2xx status code: 503 Service Unavailable: SlowDown"
    ... )
    'throttled'
    """
    if any(code in text for code in _SKEW_CODES):
        return "clock_skew"
    if kind in ("PermissionDeniedError", "UnauthenticatedError") or any(
        code in text for code in _DENIED_CODES
    ):
        return "denied"
    if kind in ("FileNotFoundError", "NotFoundError"):
        return "no_bucket"
    status = _STATUS.search(text)
    if status is not None:
        code = int(status[1])
        return _BY_STATUS.get(code, "server_error" if code >= 500 else "other")
    if "kind: Timeout" in text or "operation timed out" in text:
        return "timeout"
    return "unreachable" if "HTTP error" in text or "error sending request" in text else "other"


def credentials(target: Target, kind: str) -> tuple[Mapping[str, str], tuple[str, ...]]:
    """What the credentials file says, as options of obstore, and the texts
    that must never be shown.

    ValueError, naming the file and never its content, where it does not hold what it should.
    """
    if not target.credentials_file:
        return {}, ()
    file = Path(target.credentials_file)
    if kind == "gs":
        with file.open("rb"):  # readable at all? obstore would say no more than "invalid"
            return {"service_account": str(file)}, ()
    text = file.read_text(encoding="utf-8").strip()
    if kind == "az":
        if not text:
            raise ValueError(f"{file}: is empty, wanted an account key or a SAS token")
        sas = "sig=" in text
        return ({"sas_key": text.removeprefix("?")} if sas else {"account_key": text}), (
            text,
            text.removeprefix("?"),
        )
    parser = configparser.ConfigParser(interpolation=None)
    with contextlib.suppress(configparser.ParsingError):  # its message would show the line
        parser.read_string(text)
    wanted = {"access_key_id": True, "secret_access_key": True, "session_token": False}
    found = {name: parser.get(target.profile, f"aws_{name}", fallback="") for name in wanted}
    missing = [f"aws_{name}" for name, must in wanted.items() if must and not found[name]]
    if missing:
        raise ValueError(f"{file}: profile [{target.profile}] has no {' and no '.join(missing)}")
    given = {name: value for name, value in found.items() if value}
    return given, tuple(given.values())


def _options(target: Target, kind: str) -> dict[str, Any]:
    """Options of obstore.

    Plain HTTP only where the endpoint says so; two quick retries here, the long
    patience is the uploader's.
    """
    seconds = timedelta(seconds=target.timeout_s)
    client: dict[str, Any] = {
        "timeout": seconds,
        "connect_timeout": min(seconds, timedelta(seconds=5)),
    }
    if target.endpoint.startswith("http://"):
        client["allow_http"] = True
    if target.ca_file:
        client["root_certificate"] = Path(target.ca_file).read_bytes()
    backoff = {
        "init_backoff": timedelta(milliseconds=200),
        "max_backoff": timedelta(seconds=2),
        "base": 2,
    }
    options: dict[str, Any] = {
        "client_options": client,
        "retry_config": {"max_retries": 2, "backoff": backoff, "retry_timeout": seconds},
    }
    if target.endpoint:
        options["base_url" if kind == "gs" else "endpoint"] = target.endpoint
    if kind == "s3":
        # several stores (Google's interoperability, Alibaba) have no DeleteObjects, which obstore
        # asks for by default for a single object too
        options["disable_bulk_delete"] = True
        if target.region:
            options["region"] = target.region
    return options
