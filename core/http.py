"""What every HTTP answer of this process has: a reference, the right headers, and errors in the reader's form."""

import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Any
from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

import orjson
from flask import Flask, Response, g, request
from werkzeug.exceptions import HTTPException, RequestEntityTooLarge

from core.bodies import WholeBodies
from core.errors import AppError, TooLarge, TooMany
from core.ids import Chance
from core.logs import reference
from core.settings import Settings

log = logging.getLogger(__name__)

BODY_LIMIT = 1_000_000
# Answers of these never are HTML, whatever went wrong (design D9).
MACHINE_PATHS = ("/mcp", "/oauth/", "/token", "/register", "/.well-known/", "/healthz", "/readyz")
PAGES_UNDER_OAUTH = ("/oauth/authorize", "/authorize")
ALLOWED_HEADERS = (
    "Authorization, Content-Type, Accept, MCP-Protocol-Version, Mcp-Method, Mcp-Name, Mcp-Session-Id, Last-Event-ID"
)
PAGE_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; "
    "connect-src 'self'; font-src 'self'; base-uri 'none'; frame-ancestors 'none'",
    "X-Frame-Options": "DENY",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}
ErrorPage = Callable[[int, str, str, str], str]


class Prefix:
    """Serves the app with and without the path of its base URL, since proxies differ in whether they strip it."""

    def __init__(self, app: WSGIApplication, prefix: str) -> None:
        self._app = app
        self._prefix = prefix

    def __call__(self, environ: WSGIEnvironment, start: StartResponse) -> Iterable[bytes]:
        """Strip the prefix when it is there; everything else passes as it came."""
        path = environ.get("PATH_INFO", "")
        if path == self._prefix or path.startswith(f"{self._prefix}/"):
            environ["PATH_INFO"] = path[len(self._prefix) :] or "/"
        environ["SCRIPT_NAME"] = self._prefix
        return self._app(environ, start)


def register_http(app: Flask, settings: Settings, chance: Chance, error_page: ErrorPage) -> None:
    """Give every answer of `app` its reference, headers and error form."""
    app.config["MAX_CONTENT_LENGTH"] = BODY_LIMIT
    app.config["MAX_FORM_MEMORY_SIZE"] = BODY_LIMIT
    app.url_map.merge_slashes = False  # it would answer `//` with a redirect to an address made of the Host header
    app.wsgi_app = WholeBodies(app.wsgi_app, BODY_LIMIT)  # type: ignore[method-assign, assignment]
    if settings.prefix:
        app.wsgi_app = Prefix(app.wsgi_app, settings.prefix)  # type: ignore[method-assign, assignment]
    app.before_request(lambda: _name_the_request(chance.bytes(8).hex()))
    app.after_request(_finish)
    translator = _Translator(error_page)
    app.register_error_handler(AppError, translator.refused)
    app.register_error_handler(HTTPException, translator.http_error)
    app.register_error_handler(Exception, translator.surprise)


def _name_the_request(name: str) -> None:
    g.reference = name
    reference.set(name)


def _finish(response: Response) -> Response:
    response.headers["X-Request-Id"] = g.get("reference", "")
    if response.mimetype == "text/html":
        for name, value in PAGE_HEADERS.items():
            response.headers.setdefault(name, value)
        response.headers.setdefault("Cache-Control", "no-store")
    response.headers.setdefault("X-Content-Type-Options", "nosniff")
    return response


class _Translator:
    """Words what was raised: JSON for programs, a page for people, internals for neither."""

    def __init__(self, error_page: ErrorPage) -> None:
        self._error_page = error_page

    def refused(self, error: AppError) -> Response:
        if error.status >= 500:
            log.error("%s: %s", error.code, error.detail or error.public)
        answer = self._answer(error.status, error.code, error.public, error.remedy)
        if isinstance(error, TooMany):
            answer.headers["Retry-After"] = str(error.retry_after)
        return answer

    def http_error(self, error: HTTPException) -> Response:
        if isinstance(error, RequestEntityTooLarge):
            return self.refused(TooLarge())
        code = error.name.lower().replace(" ", "_").replace("'", "")
        answer = self._answer(error.code or 500, code, error.description or error.name)
        for name, value in error.get_headers():
            if name.lower() not in ("content-type", "content-length"):
                answer.headers[name] = value
        return answer

    def surprise(self, error: Exception) -> Response:
        log.error("unhandled %s", type(error).__name__, exc_info=error)
        return self._answer(AppError.status, AppError.code, AppError.public)

    def _answer(self, status: int, code: str, message: str, remedy: str = "") -> Response:
        if is_machine_path(request.path):
            return with_cors(json_error(status, code, message, remedy=remedy or None))
        page = self._error_page(status, code, message, g.get("reference", ""))
        return Response(page, status=status, mimetype="text/html")


def is_machine_path(path: str) -> bool:
    """Tell whether `path` answers programs, which never get HTML."""
    return path.startswith(MACHINE_PATHS) and path not in PAGES_UNDER_OAUTH


def json_error(status: int, code: str, message: str, **fields: Any) -> Response:
    """Give the error answer of an endpoint for programs; the OAuth shape (RFC 6749 5.2) and our reference."""
    body = {"error": code, "error_description": message, "reference": g.get("reference"), **fields}
    return json_answer({name: value for name, value in body.items() if value is not None}, status=status)


def json_answer(body: Mapping[str, Any], *, status: int = 200) -> Response:
    """Give a JSON answer that no cache keeps."""
    answer = Response(orjson.dumps(body), status=status, mimetype="application/json")
    answer.headers["Cache-Control"] = "no-store"
    answer.headers["X-Content-Type-Options"] = "nosniff"
    return answer


def with_cors(response: Response) -> Response:
    """Let browser clients of any origin read this answer; never with credentials (case C07)."""
    response.headers["Access-Control-Allow-Origin"] = "*"
    response.headers["Access-Control-Expose-Headers"] = "WWW-Authenticate, Mcp-Session-Id, X-Request-Id"
    return response


def preflight(methods: str) -> Response:
    """Answer a CORS preflight: 204 without authentication."""
    response = with_cors(Response(status=204))
    response.headers["Access-Control-Allow-Methods"] = methods
    response.headers["Access-Control-Allow-Headers"] = ALLOWED_HEADERS
    response.headers["Access-Control-Max-Age"] = "600"
    return response


def from_own_page(settings: Settings) -> bool:
    """Tell whether no browser says that this request comes from another site's page (beside the CSRF token).

    Fetch Metadata decides where the browser sends it: with `no-referrer`, Chromium's Origin on a form is `null`.
    """
    site = request.headers.get("Sec-Fetch-Site")
    if site is not None:
        return site in ("same-origin", "none")
    return request.headers.get("Origin", settings.origin) in (settings.origin, "null", f"http://{request.host}")
