"""Whoever is cut off while they sign in or consent gets neither a session nor a grant, on both databases."""

from concurrent.futures import Future, ThreadPoolExecutor
from threading import Event
from typing import Any

import pytest
from sqlalchemy import create_engine, func, select, update

from auth import sessions
from auth.models import grant, operator, session
from auth.operators import lock_living
from auth.passwords import Passwords
from auth.proofs import Proofs
from tests.auth.served import Served
from tests.support.browser import FormBrowser
from tests.support.oauth import RawOAuth
from tests.support.server import ALICE
from tests.support.waiting import wait_until

NEW = "a sentence that only alice would say"
pytestmark = pytest.mark.db


def count_of(served: Served, table: Any) -> int:
    engine = create_engine(served.instance.database_url)
    with engine.connect() as connection:
        found = connection.execute(select(func.count()).select_from(table)).scalar_one()
    engine.dispose()
    return int(found)


def alice_id(served: Served) -> str:
    alice = served.parts.operators.find_by_email(ALICE.email)
    assert alice is not None
    return alice.id


def sign_in_status(browser: FormBrowser) -> int:
    browser.open("/login")
    browser.fill("E-mail", ALICE.email)
    browser.fill("Password", ALICE.password)
    browser.submit("Sign in")
    return browser.page.status


def consent_page(served: Served) -> FormBrowser:
    browser = FormBrowser(served.base_url)
    browser.sign_in(ALICE.email, ALICE.password)
    client = RawOAuth(served.base_url)
    client.register()
    browser.open(client.authorize_url())
    browser.prove()
    return browser


@pytest.mark.parametrize("cut", ["password", "disabled"])
def test_a_sign_in_whose_password_was_checked_before_the_cut_opens_nothing(served, monkeypatch, cut):
    verify = Passwords.verify

    def verified_then_cut_off(self: Passwords, stored: str | None, password: str) -> bool:
        right = verify(self, stored, password)
        monkeypatch.setattr(Passwords, "verify", verify)
        cut_off(served, cut)
        return right

    monkeypatch.setattr(Passwords, "verify", verified_then_cut_off)

    assert sign_in_status(FormBrowser(served.base_url)) == 401
    assert count_of(served, session) == 0


@pytest.mark.parametrize("cut", ["password", "disabled"])
def test_a_consent_whose_proof_was_made_before_the_cut_grants_nothing(served, monkeypatch, cut):
    browser = consent_page(served)
    check = Proofs.check

    def proved_then_cut_off(self: Proofs, *given: Any) -> Any:
        proof = check(self, *given)
        cut_off(served, cut)
        return proof

    monkeypatch.setattr(Proofs, "check", proved_then_cut_off)
    browser.submit("Connect")

    assert browser.page.url.startswith(f"{served.base_url}/login?return=")
    assert (count_of(served, grant), count_of(served, session)) == (0, 0)


@pytest.mark.parametrize("act", ["sign in", "consent"])
def test_who_comes_while_the_cut_is_under_way_waits_for_its_end(served, monkeypatch, act):
    arrived = Event()
    monkeypatch.setattr(sessions, "lock_living", lambda *given: arrived.set() or lock_living(*given))
    browser = consent_page(served) if act == "consent" else FormBrowser(served.base_url)
    steps = {"consent": lambda: browser.submit("Connect"), "sign in": lambda: sign_in_status(browser)}
    engine = served.parts.database.writing
    with ThreadPoolExecutor(1) as pool:
        with engine.begin() as connection:
            connection.execute(update(operator).where(operator.c.email == ALICE.email).values(password_hash="x"))
            operators = served.parts.operators
            operators._cut_off(connection, alice_id(served), 1)  # the rest of `set_password`, held open
            acting: Future[Any] = pool.submit(steps[act])
            if not served.parts.database.is_sqlite:  # which lets nobody begin to write until this is over
                wait_until("the other one at the lock", arrived.is_set)
            assert not acting.done()
        wait_until("the answer", acting.done)
        acting.result()

    assert (count_of(served, grant), count_of(served, session)) == (0, 0)


def cut_off(served: Served, cut: str) -> None:
    if cut == "password":
        served.parts.operators.set_password(alice_id(served), NEW)
    else:
        served.parts.operators.disable(alice_id(served))
