"""Who sees which part: the users of ``web.tenants`` (docs/security.md).

What is not opened here for users of a part is refused: a route that is added later, too.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping

from aiohttp import web

from collector.config import owners
from collector.web.policy import USER

Owners = frozenset[str] | None  # None: everything
OWNERS = web.RequestKey("owners", frozenset)  # whose jobs alone are seen
_PROBES = frozenset({"/-/healthy", "/-/ready", "/health", "/healthz"})


class Readers:
    """Lets users ask for what they may see. ``tenants`` is the setting; empty: everybody sees
    everything, as far as the web configuration lets them in.
    """

    def __init__(self, tenants: Mapping[str, str], open_paths: Iterable[str]) -> None:
        self._owners = {user: owners.parse(text) for user, text in tenants.items()}
        self._open = _PROBES.union(open_paths)

    @web.middleware
    async def admit(
        self, request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
    ) -> web.StreamResponse:
        """Before the handler, after the password. Refusals do not say what there is."""
        if not self._owners:
            return await handler(request)
        user = request.get(USER)
        if user is None or user not in self._owners:
            return _refused("web.tenants does not name this user")
        its = self._owners[user]
        if its is None:
            return await handler(request)
        request[OWNERS] = its
        resource = request.match_info.route.resource
        if resource is None or resource.canonical not in self._open:
            return _refused("web.tenants shows this user its own jobs, and this is more")
        return await handler(request)


def _refused(why: str) -> web.Response:
    return web.Response(status=403, text=f"{why}\n")
