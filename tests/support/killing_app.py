"""The application that ends its own worker with SIGKILL where a test says; served in place of `app:create_app()`."""

import contextlib
import os
import signal
from pathlib import Path

from flask import Flask

from app import build, serve
from core.settings import load_settings

KILL_AT = "kill-at"  # a file in the instance: the name of the point


def create_app() -> Flask:
    """Give the application as it is, but for the one worker that takes the order to die at a point."""
    settings = load_settings()
    order = settings.instance / KILL_AT
    return serve(build(settings, at=lambda point: _obey(order, point)))


def _obey(order: Path, point: str) -> None:
    with contextlib.suppress(FileNotFoundError):
        if order.read_text() == point:
            order.unlink()
            os.kill(os.getpid(), signal.SIGKILL)
