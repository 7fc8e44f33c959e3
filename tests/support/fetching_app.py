"""The application whose fetches lead to a publisher of the tests; served in place of `app:create_app()`."""

import json

from flask import Flask

from app import create_app as create
from core.settings import load_settings
from tests.support.publisher import WHERE, fetcher_to


def create_app() -> Flask:
    """Give the application as it is, but for where its fetches end."""
    settings = load_settings()
    where = json.loads((settings.instance / WHERE).read_text())
    return create(settings, fetcher=fetcher_to(where))
