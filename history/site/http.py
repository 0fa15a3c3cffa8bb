"""Questions to a site over HTTP: bounded, repeated where that may help, silent about secrets."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from http.client import HTTPException, HTTPResponse, IncompleteRead
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlencode

from collector.client import NOBODY, Access, connection, login, split
from history.site.series import SiteError, TooMuchError

TIMEOUT_S = 300.0  # a question over two hours of a thousand nodes takes the site this long at worst
MAX_BYTES = 512 << 20  # of one answer: 28 million samples of remote read
MAX_TOKEN_BYTES = 64 << 10
TRIES = 4
MAX_WAIT_S = 60.0
OK = 200
TIMED_OUT = 504  # of a proxy: the site itself would have answered, later
MAX_TIMEOUTS = 2
AGAIN = frozenset((429, 500, 502, 503, TIMED_OUT))
LOOPBACK = frozenset(("127.0.0.1", "::1", "localhost"))
FORBIDDEN = frozenset((401, 403))
# How a site says that a question is too large.
TOO_MUCH = (
    "exceeded sample limit",  # Prometheus, storage/remote/codec.go
    "query processing would load too many samples",  # promql/engine.go: --query.max-samples
    "query timed out in",  # promql/engine.go: --query.timeout
    # VictoriaMetrics, lib/storage and app/vmselect/netstorage: -search.max*
    "the number of matching timeseries exceeds",
    "cannot select more than -search.max",
    "the maximum number",  # Mimir, pkg/util/limiter: of chunks, of series
    "the maximum allowed estimated amount of memory",
    "the aggregated chunks size",
    "the query hit the max number of",  # Cortex, pkg/util/limiter
    "exceeded series limit",  # Thanos, pkg/store/bucket.go, and other store gateways
    "exceeded chunks limit",
    "exceeded bytes limit",
)
MAX_WORDS_BYTES = 4096  # of an answer that are looked at for these


class Answer(NamedTuple):
    """Status, content type and body."""

    status: int
    kind: str
    body: bytes

    @property
    def words(self) -> str:
        """The first line of the body, for a message."""
        return " ".join(self.body[:400].decode("utf-8", "replace").split())[:200]

    @property
    def is_too_much(self) -> bool:
        """Whether it refuses a question as too large."""
        return self.status != OK and is_too_much(
            self.body[:MAX_WORDS_BYTES].decode("utf-8", "replace")
        )


class Stream:
    """A body of an answer 200 that is read as it comes, and never kept whole."""

    def __init__(self, got: HTTPResponse, close: Callable[[], object]) -> None:
        self.kind, self._got, self.close = got.headers.get_content_type(), got, close

    def read(self, count: int) -> bytes:
        """So many bytes, fewer at the end. IncompleteRead where it breaks off before."""
        data = self._got.read(count)
        if len(data) < count:
            _check_whole(self._got, data)
        return data


class Http:
    """One site: its base URL, who asks, and headers that each question carries (a tenant).

    ``only``: labels that series must have to be asked for, where a site holds several clusters.
    ``sleep`` is called with seconds between two tries.
    """

    def __init__(
        self,
        url: str,
        who: Access = NOBODY,
        *,
        token_file: str = "",
        headers: Mapping[str, str] | None = None,
        only: Mapping[str, str] | None = None,
        sleep: Callable[[float], object] = time.sleep,
    ) -> None:
        self.url, self.only = url.rstrip("/"), dict(only or {})
        self._who, self._sleep = who, sleep
        try:
            self._parts = split(self.url)
        except ValueError as error:  # prometheus:9090 reads as a scheme
            raise SiteError(f"{error}: expected http://HOST:PORT") from error
        if self._parts.scheme not in ("http", "https"):
            raise SiteError(f"{url}: expected http:// or https://")
        self._headers = dict(headers or {})
        if (token_file or who.login_file) and not self._is_private():
            raise SiteError(f"{url}: a secret is sent over https:// or to this machine only")
        if token_file:
            self._headers["Authorization"] = f"Bearer {_token(token_file)}"
        elif who.login_file:
            self._headers["Authorization"] = login(who.login_file)

    def get(self, path: str, **parameters: str) -> Answer:
        """A page below the base URL. SiteError where no answer is to be had."""
        return self.ask("GET", f"{path}?{urlencode(parameters)}" if parameters else path)

    def post(self, path: str, body: bytes, headers: Mapping[str, str]) -> Answer:
        """As ``get``, with a body."""
        return self.ask("POST", path, body, headers)

    @contextmanager
    def stream(self, path: str, body: bytes, headers: Mapping[str, str]) -> Iterator[Stream]:
        """As ``post``, for an answer that is read as it comes. SiteError where the answer is
        another than 200, and where it breaks off; TooMuchError where it says so.
        """
        answer = self._asked("POST", path, body, headers, streamed=True)
        if isinstance(answer, Answer):
            kind = TooMuchError if answer.is_too_much else SiteError
            raise kind(f"{self.url}{path}: HTTP {answer.status}: {answer.words}")
        try:
            yield answer
        except (OSError, HTTPException) as error:
            raise SiteError(f"{self.url}: {str(error) or type(error).__name__}") from None
        finally:
            answer.close()

    def ask(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        """One question, repeated where the site is busy or was not reached."""
        answer = self._asked(method, path, body, headers or {}, streamed=False)
        assert isinstance(answer, Answer)  # noqa: S101 - of what is not streamed
        return answer

    def _asked(
        self,
        method: str,
        path: str,
        body: bytes | None,
        headers: Mapping[str, str],
        *,
        streamed: bool,
    ) -> Answer | Stream:
        why, timeouts = "", 0
        for tries in range(TRIES):
            try:
                answer, after = self._once(method, path, body, headers, streamed=streamed)
            except (OSError, HTTPException) as error:
                why, after = f"{str(error) or type(error).__name__}", ""
            else:
                if isinstance(answer, Stream):
                    return answer
                if answer.status in FORBIDDEN:
                    raise SiteError(f"{self.url}: HTTP {answer.status}: it refuses who asks")
                if answer.status not in AGAIN or _is_about_the_question(answer):
                    return answer
                why = f"HTTP {answer.status}: {answer.words}"
                timeouts += answer.status == TIMED_OUT
                if timeouts == MAX_TIMEOUTS:  # half of it may be answered in time
                    raise TooMuchError(f"{self.url}: {why}")
            if tries + 1 < TRIES:
                self._sleep(_wait_s(after, tries))
        raise SiteError(f"{self.url}: {why}")

    def _is_private(self) -> bool:
        return self._parts.scheme == "https" or self._parts.hostname in LOOPBACK

    def _once(
        self,
        method: str,
        path: str,
        body: bytes | None,
        headers: Mapping[str, str],
        *,
        streamed: bool,
    ) -> tuple[Answer | Stream, str]:
        with ExitStack() as stack:
            opened = connection(self._parts, self._who, TIMEOUT_S)
            stack.callback(opened.close)
            opened.request(method, f"{self._parts.path}{path}", body, {**self._headers, **headers})
            got = opened.getresponse()
            if streamed and got.status == OK:
                return Stream(got, stack.pop_all().close), ""
            page = got.read(MAX_BYTES + 1)
            if len(page) > MAX_BYTES:
                raise SiteError(f"{self.url}: an answer of more than {MAX_BYTES >> 20} MiB")
            _check_whole(got, page)
            answer = Answer(got.status, got.headers.get_content_type(), page)
            return answer, got.headers.get("Retry-After", "")


def is_too_much(words: str) -> bool:
    """Whether these are a site's words for a question that is too large."""
    return any(known in words for known in TOO_MUCH)


def _check_whole(got: HTTPResponse, data: bytes) -> None:
    """IncompleteRead where the answer announced more than came: ``read`` of a number of bytes does
    not raise it.
    """
    if got.length:
        raise IncompleteRead(data, got.length)


def _is_about_the_question(answer: Answer) -> bool:
    """Prometheus answers 500 to a wrong regular expression, and sites 500 or 503 to one that is too
    much: those say so in their own JSON or words.
    """
    return answer.is_too_much or b"error parsing regexp" in answer.body


def _wait_s(after: str, tries: int) -> float:
    return min(float(after), MAX_WAIT_S) if after.isdigit() else min(2.0**tries, MAX_WAIT_S)


def _token(file: str) -> str:
    try:
        with Path(file).open("rb") as opened:
            text = opened.read(MAX_TOKEN_BYTES).decode("ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise SiteError(f"--token-file {file}: {error}") from None
    if not text or not text.isprintable():
        raise SiteError(f"--token-file {file}: expected a token in its one line")
    return text
