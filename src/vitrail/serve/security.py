"""The studio's door: answers only this machine's own browser on this page, and tells it to ask nobody else.

A web page of anyone's can send requests to 127.0.0.1. So the Host must be ours (another name that is made to point here, DNS rebinding,
is refused), what another site's page asks for is refused (Origin, Sec-Fetch-Site), and nothing here allows another site to
read an answer (no CORS headers, Cross-Origin-Resource-Policy).
"""

import re
import secrets
from collections.abc import Mapping

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import cookie_parser
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

COOKIE = "vitrail_session"
SESSION = re.compile(r"[0-9a-f]{32}")  # 128 bits
LOCAL_NAMES = ("127.0.0.1", "localhost", "[::1]")
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob: data:; connect-src 'self'; "
    "font-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "X-Frame-Options": "DENY",
    "Permissions-Policy": "camera=(), microphone=(), geolocation=()",
}


class Guard:
    """The outermost part of the app: refuses, gives each browser a session, and puts the headers on every answer.

    `scope["session"]` is the session's name for what is inside.
    """

    def __init__(self, app: ASGIApp, *, port: int, pages: frozenset[str]) -> None:
        self.app, self.hosts, self.pages = app, local_hosts(port), pages

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        if scope["type"] != "http":  # a websocket: the studio has none
            await receive()
            await send({"type": "websocket.close", "code": 1008})
            return
        headers = Headers(scope=scope)
        private = scope["path"].startswith("/api")
        session, fresh = find_session(headers)
        refusal = self.refuse(headers, private=private)
        gives = fresh and refusal is None and (private or scope["path"] in self.pages) and not is_foreign(headers)

        async def answer(message: Message) -> None:
            if message["type"] == "http.response.start":
                own = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    own[name] = value
                own["Cache-Control"] = "no-cache" if scope["path"].startswith("/static/") else "no-store"
                if gives:
                    own.append("Set-Cookie", f"{COOKIE}={session}; Path=/; HttpOnly; SameSite=Strict")
            await send(message)

        scope["session"] = session
        await (self.app if refusal is None else refusal)(scope, receive, answer)

    def refuse(self, headers: Headers, *, private: bool) -> Response | None:
        hosts = headers.getlist("host")
        if len(hosts) != 1 or hosts[0].lower() not in self.hosts:
            return error("This is a studio on 127.0.0.1, and the request was for another host.", 421)
        origin = headers.get("origin")
        if (origin is not None and origin.lower() != f"http://{hosts[0].lower()}") or (private and is_foreign(headers)):
            return error("The studio does not answer to pages of other sites.", 403)
        return None


def local_hosts(port: int) -> frozenset[str]:
    """What a browser may call this server; the port is left out only where it is HTTP's own."""
    names = [f"{name}:{port}" for name in LOCAL_NAMES]
    return frozenset([*names, *LOCAL_NAMES] if port == 80 else names)


def is_foreign(headers: Headers) -> bool:
    """Whether the browser says that another site's page, or another port's, is behind the request."""
    return headers.get("sec-fetch-site", "none") not in ("none", "same-origin")


def find_session(headers: Headers) -> tuple[str, bool]:
    """The session, and whether it is a new one."""
    found = cookie_parser("; ".join(headers.getlist("cookie"))).get(COOKIE, "")
    return (found, False) if SESSION.fullmatch(found) else (secrets.token_hex(16), True)


def error(message: str, status: int, *, headers: Mapping[str, str] | None = None) -> JSONResponse:
    """Every error of the studio has this shape."""
    return JSONResponse({"error": message}, status, headers=headers)
