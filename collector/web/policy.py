"""Who may ask: every request passes here before anything is made for it."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection

from collector.config.web.security import Security
from collector.web.aiohttp_server import web
from collector.web.auth import Passwords, TooManyGuesses, credentials
from collector.web.listener import Handler

USER = web.RequestKey("user", str)  # who asks, where passwords are checked


class Policy:
    """Turns away who brings a body, has no password or asks too often.

    ``refused`` is called with the reason, in one word. POST to a path of ``bodies`` may have one,
    which its handler bounds.
    """

    def __init__(
        self,
        security: Callable[[], Security],
        refused: Callable[[str], None],
        bodies: Collection[str] = (),
    ) -> None:
        self._security, self._refused = security, refused
        self._bodies = frozenset(bodies)
        self._passwords = Passwords()

    @web.middleware
    async def police(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Before the handler.

        Passwords come before the rate: who has none does not use it up for those who have one.
        """
        security = self._security()
        takes_body = request.method == "POST" and request.path in self._bodies
        if request.can_read_body and not takes_body:
            if isinstance(refused := request.match_info.http_exception, web.HTTPMethodNotAllowed):
                refused.force_close()
                self._refused("body")
                raise refused
            return self._turn_away("body", 413, "requests have no body here")
        if security.users:
            header, peer = request.headers.get("Authorization", ""), str(request.remote)
            try:
                if not await self._passwords.admits(header, security.users, peer):
                    return self._turn_away("password", 401, "unauthorized")
            except TooManyGuesses:
                return self._turn_away("guesses", 429, "too many passwords to check")
            if (given := credentials(header)) is not None:
                request[USER] = given[0]
        if security.bucket is not None and not security.bucket.take(time.monotonic()):
            return self._turn_away("rate", 429, "too many requests")
        return await handler(request)

    def _turn_away(self, reason: str, status: int, text: str) -> web.Response:
        self._refused(reason)
        response = web.Response(
            status=status,
            text=text + "\n",
            headers={"WWW-Authenticate": "Basic"} if status == 401 else None,
        )
        if status == 413:
            response.force_close()
        return response
