"""The pages to log in and out."""

from __future__ import annotations

import logging
from urllib.parse import parse_qs, urlsplit

from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route

from reconciler.console.pages import Pages

from .door import LOGIN, LOGOUT, Doors, address_of, by_tls, cookie_name
from .rights import Refusal
from .sessions import SESSION_SECONDS

log = logging.getLogger(__name__)

FORM_BYTES_MAX = 4096
LOOPBACK = ("127.0.0.1", "::1")


class Login:
    """Takes the secret of a key, and gives a session for it."""

    def __init__(self, doors: Doors, pages: Pages) -> None:
        self._doors = doors
        self._pages = pages

    def routes(self) -> list[Route]:
        return [
            Route(LOGIN, self._asked, methods=["GET"], name="Log in"),
            Route(LOGIN, self._shown, methods=["POST"], name="Show a key"),
            Route(LOGOUT, self._left, methods=["POST"], name="Log out"),
        ]

    async def _asked(self, request: Request) -> Response:
        target = _own_path(request.query_params.get("next", ""))
        if not self._doors.settings().keys:
            return RedirectResponse(target, 303)
        return self._page(request, target, "")

    async def _shown(self, request: Request) -> Response:
        target = _own_path(request.query_params.get("next", ""))
        if not self._doors.settings().keys:
            return RedirectResponse(target, 303)
        address = address_of(request)
        form = await form_of(request, FORM_BYTES_MAX)
        if form is None:
            return self._page(request, target, "This is not a key: it is too long.", 413)
        secret = form.get("key", "").strip()
        answer = self._doors.show(secret, address)
        if isinstance(answer, int):
            text = f"This key is wrong, like too many before it from this address. Try again in {answer} s."
            return self._page(request, target, text, 429, {"retry-after": str(answer)})
        if isinstance(answer, Refusal):
            return self._page(request, target, answer.text, 401)
        id = self._doors.sessions.begin(answer, secret, self._doors.clock())
        log.info("login of key %s from %s: %s", answer.key, address, "operate" if answer.operate else "view")
        response = RedirectResponse(target, 303)
        response.set_cookie(
            cookie_name(request, self._doors.settings()),
            id,
            max_age=int(SESSION_SECONDS),
            path="/",
            secure=by_tls(request, self._doors.settings()),
            httponly=True,
            samesite="strict",
        )
        return response

    async def _left(self, request: Request) -> Response:
        settings = self._doors.settings()
        name = cookie_name(request, settings)
        if id := request.cookies.get(name, ""):
            self._doors.sessions.log_out(id)
            log.info("logout from %s", address_of(request))
        response = RedirectResponse(LOGIN if settings.keys else "/", 303)
        response.delete_cookie(
            name, path="/", secure=by_tls(request, settings), httponly=True, samesite="strict"
        )
        return response

    def _page(
        self,
        request: Request,
        target: str,
        problem: str,
        status: int = 200,
        headers: dict[str, str] | None = None,
    ) -> HTMLResponse:
        html = self._pages.render(
            "login.html",
            target=target,
            problem=problem,
            known=bool(self._doors.feed.snapshot.at),
            open_line=not by_tls(request, self._doors.settings()) and address_of(request) not in LOOPBACK,
        )
        return HTMLResponse(html, status, {"cache-control": "no-store", **(headers or {})})


async def form_of(request: Request, bytes_max: int) -> dict[str, str] | None:
    """Return the fields of a form; None for one that is too large."""
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > bytes_max:
            return None
    return {name: values[0] for name, values in parse_qs(body.decode(errors="replace")).items()}


def _own_path(target: str) -> str:
    """Return the address to open after the login: always a page of the console, even if the link names another site."""
    parts = urlsplit(target.replace("\\", "/"))
    if parts.scheme or parts.netloc or not parts.path.startswith("/") or parts.path.startswith("//"):
        return "/"
    path = parts.path + (f"?{parts.query}" if parts.query else "")
    return path if path.isprintable() else "/"
