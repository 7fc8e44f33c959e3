"""The whole application in this process, over HTTP on loopback, with a clock that the test moves."""

import threading
from collections.abc import Iterable
from datetime import datetime, timedelta
from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

from werkzeug.serving import WSGIRequestHandler, make_server
from werkzeug.wsgi import get_input_stream

from app import build, serve
from auth.fetching import Fetcher
from core.clock import SystemClock
from core.settings import load_settings
from tests.support.server import Instance
from tests.support.waiting import free_port


class MovableClock:
    """Stands still until it is moved."""

    def __init__(self) -> None:
        self._now = SystemClock().now()

    def now(self) -> datetime:
        return self._now

    def move(self, **span: float) -> None:
        self._now += timedelta(**span)


class _Quiet(WSGIRequestHandler):
    def log(self, type: str, message: str, *args: object) -> None:  # noqa: A002 - werkzeug's name
        """Say nothing."""


def _ending_bodies(app: WSGIApplication) -> WSGIApplication:
    """Let the body end where it ends, as gunicorn does: werkzeug's own server would wait for more."""

    def ending(environ: WSGIEnvironment, start: StartResponse) -> Iterable[bytes]:
        environ["wsgi.input"] = get_input_stream(environ)
        return app(environ, start)

    return ending


class Served:
    """One instance behind a threaded server; `clock` is its time."""

    def __init__(self, instance: Instance, *, fetcher: Fetcher | None = None, **settings: str) -> None:
        port = free_port()
        self.base_url = settings.get("COUNTERSIGN_BASE_URL", f"http://localhost:{port}")
        self.address = f"http://127.0.0.1:{port}"
        given = {"COUNTERSIGN_PORT": str(port), "COUNTERSIGN_BASE_URL": self.base_url, **settings}
        self.instance = instance
        instance.settings |= given
        self.clock = MovableClock()
        self.parts = build(load_settings(instance.environment()), clock=self.clock, fetcher=fetcher)
        app = _ending_bodies(serve(self.parts))
        self._server = make_server("127.0.0.1", port, app, threaded=True, request_handler=_Quiet)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)
        self._thread.start()

    def __enter__(self) -> "Served":
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
        self.parts.outbox.close()
        for engine in (self.parts.database.writing, self.parts.database.reading):
            engine.dispose()
