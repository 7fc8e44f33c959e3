"""The whole application in this process, over HTTP on loopback, with a clock that the test moves."""

import threading
from datetime import datetime, timedelta

from werkzeug.serving import WSGIRequestHandler, make_server

from app import build, serve
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


class Served:
    """One instance behind a threaded server; `clock` is its time."""

    def __init__(self, instance: Instance, **settings: str) -> None:
        port = free_port()
        self.base_url = settings.get("COUNTERSIGN_BASE_URL", f"http://localhost:{port}")
        self.address = f"http://127.0.0.1:{port}"
        given = {"COUNTERSIGN_PORT": str(port), "COUNTERSIGN_BASE_URL": self.base_url, **settings}
        self.instance = instance
        instance.settings |= given
        self.clock = MovableClock()
        self._parts = build(load_settings(instance.environment()), clock=self.clock)
        app = serve(self._parts)
        self._server = make_server("127.0.0.1", port, app, threaded=True, request_handler=_Quiet)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    def __enter__(self) -> "Served":
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
        self._parts.outbox.close()
        for engine in (self._parts.database.writing, self._parts.database.reading):
            engine.dispose()
