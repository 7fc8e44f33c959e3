# tests/conftest.py
from collections.abc import Iterator
from pathlib import Path

import pytest
from flask import Flask
from sqlalchemy.orm import Session

from app import build, serve
from bakery.tables import Base, Order
from core.settings import load_settings
from flows.caller import Role
from flows.testing import Agent, Mails
from migrations.revisions import upgrade

EMAIL, PASSWORD = "ada@example.test", "a password of the tests"
SETTINGS = {
    "COUNTERSIGN_FLOWS": "bakery.flows",
    "COUNTERSIGN_SECRET_KEYS": "k" * 43,
    "COUNTERSIGN_ARGON2": "1,8,1",  # the cheapest: nobody attacks a test
}


@pytest.fixture
def mails() -> Mails:
    """Every mail that leaves."""
    return Mails()


@pytest.fixture
def app(tmp_path: Path, mails: Mails) -> Iterator[Flask]:
    """The whole server on a fresh SQLite database with our tables and one order."""
    settings = load_settings(SETTINGS | {"COUNTERSIGN_INSTANCE": str(tmp_path)}, folder=tmp_path)
    parts = build(settings, mailer=mails)
    upgrade(parts.database, demo=False)
    Base.metadata.create_all(parts.database.writing)
    with Session(parts.database.writing) as session, session.begin():
        session.add(Order(number=7, email="bo@example.test", cake="Sachertorte", paid=2850, payment="pay_1"))
    parts.operators.add(EMAIL, Role.OPERATOR, PASSWORD)
    yield serve(parts)
    parts.outbox.close()
    for engine in (parts.database.writing, parts.database.reading):
        engine.dispose()


@pytest.fixture
def agent(app: Flask) -> Agent:
    """An agent of Ada's with every right that she can give."""
    return Agent.connect(app, email=EMAIL, password=PASSWORD)
