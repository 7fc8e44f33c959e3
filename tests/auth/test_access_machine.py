"""No reachable state holds a token outside of its grant: a random walk beside a small model (hypothesis)."""

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from sqlalchemy import func, insert, select, update

from auth.authorize import Asked
from auth.bearer import Challenge
from auth.clients import Client
from auth.models import grant, operator, session, token
from auth.registration import machine_registration, parse_registration
from auth.sessions import SignedIn
from core.clock import to_us
from core.errors import AppError
from core.ids import digest_of
from flows.caller import Role, Surface
from policy.approval import Proof, ProofKind
from policy.scopes import READ_SCOPES
from tests.auth.served import Served
from tests.support.oauth import challenge_of
from tests.support.server import Instance

VERIFIER, WRONG = "v" * 43, "w" * 43
REDIRECT = "http://127.0.0.1:33418/callback"
SCOPES = (*READ_SCOPES, "mcp:action:invoke", "orders:refund", "stock:adjust")
BODY = b'{"redirect_uris": ["http://127.0.0.1:33418/callback"], "token_endpoint_auth_method": "none"}'
DAY = 86_400
SPANS = [timedelta(seconds=n) for n in (1, 1, 1, 9, 9, 11, 11, 59, 61, 61, 119, 3599, 3601, 31 * DAY)]
NUMBERS = itertools.count(1)
MOST_A_GENERATION = 10  # access tokens (design D3)
few_scopes = st.sets(st.sampled_from(SCOPES), min_size=1, max_size=4)


@dataclass(eq=False)
class Person:
    """One account, by what the model knows."""

    id: str
    role: Role
    living: bool = True


@dataclass(eq=False)
class Program:
    """One client."""

    client: Client
    living: bool = True


@dataclass(eq=False)
class Grant:
    """One consent, with its family of tokens."""

    id: str
    person: Person
    program: Program
    scopes: frozenset[str]
    living: bool = True

    @property
    def counts(self) -> bool:
        return self.living and self.person.living and self.program.living


@dataclass(eq=False)
class Code:
    """One authorization code."""

    secret: str
    grant: Grant
    made_at: datetime
    used_at: datetime | None = None


@dataclass(eq=False)
class Access:
    """One access token."""

    secret: str
    grant: Grant
    expires_at: datetime
    narrowed_to: frozenset[str] | None = None
    revoked: bool = False


@dataclass(eq=False)
class Refresh:
    """One refresh token; its successor once it was replaced."""

    secret: str
    grant: Grant
    expires_at: datetime
    rotated_at: datetime | None = None
    successor: str = ""
    given: list[Access] = field(default_factory=list)


class AccessMachine(RuleBasedStateMachine):
    """People, programs, consents, codes and tokens, in any order."""

    served: Served

    def __init__(self) -> None:
        super().__init__()
        self.parts = self.served.parts
        self.http = self.parts.flask.test_client()
        self.people: list[Person] = []
        self.programs: list[Program] = []
        self.grants: list[Grant] = []
        self.codes: list[Code] = []
        self.access: dict[str, Access] = {}
        self.refresh: dict[str, Refresh] = {}

    # --- people and programs --------------------------------------------------------------------------------------

    @initialize()
    def begin(self) -> None:
        for role in (Role.OPERATOR, Role.VIEWER):
            person = Person(f"op_{next(NUMBERS):032x}", role)
            row = {"id": person.id, "email": f"{person.id}@example.test", "role": role.value, "password_hash": "!"}
            row |= {"must_change": False, "created_at": to_us(self.now)}
            with self.parts.database.write() as connection:
                connection.execute(insert(operator), row)
            self.people.append(person)
        self.programs += [self.new_program() for _ in range(2)]
        for person, program in zip(self.people, self.programs, strict=True):
            self.consent_to(person, program, set(READ_SCOPES))
            self.redeem_once(self.codes[-1], VERIFIER, own=True)

    def new_program(self) -> Program:
        return Program(self.parts.clients.add(parse_registration(BODY, self.parts.scopes)).client)

    @property
    def now(self) -> datetime:
        return self.served.clock.now()

    def signed_in(self, person: Person) -> SignedIn:
        digest = digest_of(f"session {next(NUMBERS)}")
        row = {"digest": digest, "operator_id": person.id, "csrf": "c", "remembered": False}
        now = to_us(self.now)
        row |= {"created_at": now, "signed_in_at": now, "seen_at": now, "expires_at": now + 10**12}
        with self.parts.database.write() as connection:
            connection.execute(insert(session), row)
        return SignedIn(person.id, "x@example.test", person.role, "c", self.now, must_change=False, digest=digest)

    def proof(self, person: Person) -> Proof:
        return Proof(person.id, ProofKind.PASSWORD, self.now)

    # --- consent, codes, tokens -----------------------------------------------------------------------------------

    @rule(data=st.data(), ticked=few_scopes)
    def consent(self, data: st.DataObject, ticked: set[str]) -> None:
        self.consent_to(data.draw(st.sampled_from(self.people)), data.draw(st.sampled_from(self.programs)), ticked)

    def consent_to(self, person: Person, program: Program, ticked: set[str]) -> None:
        asked = Asked(program.client, REDIRECT, (), None, challenge_of(VERIFIER), self.parts.settings.resource,
                      silent=False, must_show=False)  # fmt: skip
        signed_in = self.signed_in(person)
        may = frozenset(self.parts.scopes.with_implied(ticked & self.parts.scopes.of_role(person.role)))
        try:
            opened = self.parts.consents.open(signed_in, asked)
            location = self.parts.consents.allow(opened, signed_in, ticked, self.proof(person))
        except AppError:
            assert not (person.living and program.living and may)
            return
        assert person.living
        assert program.living
        with self.parts.database.read() as connection:
            newest = select(grant.c.id).where(grant.c.operator_id == person.id)
            known = {one.id for one in self.grants}
            [grant_id] = set(connection.execute(newest).scalars()) - known
        made = Grant(grant_id, person, program, may)
        self.grants.append(made)
        self.codes.append(Code(parse_qs(urlsplit(location).query)["code"][0], made, self.now))

    @rule(data=st.data(), ticked=few_scopes, later=st.sampled_from([0, 0, 9, 11]))
    def connect(self, data: st.DataObject, ticked: set[str], later: int) -> None:
        """Consent and redeem, and maybe once more after so many seconds."""
        before = len(self.codes)
        self.consent(data, ticked)
        for code in self.codes[before:]:
            self.redeem_once(code, VERIFIER, own=True)
            if later:
                self.served.clock.move(seconds=later)
                self.redeem_once(code, VERIFIER, own=True)

    @precondition(lambda self: self.codes)
    @rule(data=st.data(), verifier=st.sampled_from([VERIFIER, VERIFIER, VERIFIER, WRONG]))
    def redeem(self, data: st.DataObject, verifier: str) -> None:
        own = data.draw(st.sampled_from([True, True, True, False]))
        self.redeem_once(data.draw(st.sampled_from(self.codes[-2:])), verifier, own=own)

    def redeem_once(self, code: Code, verifier: str, *, own: bool) -> None:
        program = code.grant.program if own else self.new_program()
        fields = {"code": code.secret, "redirect_uri": REDIRECT, "code_verifier": verifier}
        answer = self.ask(program, "authorization_code", **fields)
        if not program.living:
            assert answer.status_code == 401
            return
        fresh = code.used_at is None and self.now - code.made_at < timedelta(seconds=120)
        if code.grant.counts and own and fresh and verifier == VERIFIER:
            assert answer.status_code == 200, answer.text
            code.used_at = self.now
            self.learn(answer.json, code.grant)
            return
        assert answer.json["error"] == "invalid_grant", answer.text
        innocent = own and verifier == VERIFIER and code.used_at and self.now - code.used_at <= timedelta(seconds=10)
        if code.grant.counts and code.used_at is not None and not innocent:
            code.grant.living = False

    @precondition(lambda self: self.refresh)
    @rule(data=st.data(), wanted=st.none() | few_scopes, times=st.sampled_from([1, 1, 1, 2, 12]))
    def replace(self, data: st.DataObject, wanted: set[str] | None, times: int) -> None:
        living = [one for one in self.refresh.values() if one.grant.counts and one.expires_at > self.now]
        old = data.draw(st.sampled_from(living or list(self.refresh.values())))
        if wanted is not None and data.draw(st.booleans()):
            wanted = wanted & old.grant.scopes or None
        for _ in range(times):
            self.replace_once(old, wanted)

    def replace_once(self, old: Refresh, wanted: set[str] | frozenset[str] | None) -> None:
        fields = {} if wanted is None else {"scope": " ".join(sorted(wanted))}
        answer = self.ask(old.grant.program, "refresh_token", refresh_token=old.secret, **fields)
        if not old.grant.program.living:
            assert answer.status_code == 401
        elif not old.grant.counts or old.expires_at <= self.now:
            assert answer.json["error"] == "invalid_grant", answer.text
        elif old.rotated_at is not None and self.now - old.rotated_at > timedelta(seconds=60):
            assert answer.json["error"] == "invalid_grant", answer.text
            old.grant.living = False
        elif wanted is not None and not wanted <= old.grant.scopes:
            assert answer.json["error"] == "invalid_scope", answer.text
        else:
            whole = wanted is None or wanted == old.grant.scopes
            self.replaced(old, answer, None if whole else frozenset(wanted or ()))

    def replaced(self, old: Refresh, answer: Any, narrowed_to: frozenset[str] | None) -> None:
        if answer.status_code == 429:  # no token of this narrowing is left
            assert len(old.given) == MOST_A_GENERATION
            assert all(one.revoked or one.narrowed_to != narrowed_to for one in old.given)
            return
        assert answer.status_code == 200, answer.text
        given = answer.json
        if old.rotated_at is None:
            old.rotated_at, old.successor = self.now, given["refresh_token"]
        assert given["refresh_token"] == old.successor
        if given["access_token"] in self.access:
            assert len(old.given) == MOST_A_GENERATION
            assert self.access[given["access_token"]].narrowed_to == narrowed_to
            return
        old.given.append(self.learn(given, old.grant, narrowed_to))

    def learn(self, given: dict[str, Any], of: Grant, narrowed_to: frozenset[str] | None = None) -> Access:
        """Take note of the tokens of an answer."""
        one = Access(given["access_token"], of, self.now + timedelta(hours=1), narrowed_to)
        self.access[one.secret] = one
        if "refresh_token" in given and given["refresh_token"] not in self.refresh:
            with self.parts.database.read() as connection:
                born = connection.execute(select(grant.c.created_at).where(grant.c.id == of.id)).scalar_one()
            last = born + to_us_span(timedelta(days=90)) - to_us(self.now)
            life = min(timedelta(days=30), timedelta(microseconds=last))
            self.refresh[given["refresh_token"]] = Refresh(given["refresh_token"], of, self.now + life)
        return one

    def ask(self, program: Program, grant_type: str, **fields: str) -> Any:
        given = {"grant_type": grant_type, "client_id": program.client.id, **fields}
        return self.http.post("/oauth/token", data=given)

    # --- other ways to a token ------------------------------------------------------------------------------------

    @rule(data=st.data(), scopes=few_scopes)
    def issue_at_the_command_line(self, data: st.DataObject, scopes: set[str]) -> None:
        person = data.draw(st.sampled_from(self.people))
        name = f"walk-{next(NUMBERS)}"
        try:
            issued = self.parts.local.issue(name, f"{person.id}@example.test", scopes, timedelta(hours=1))
        except AppError:
            assert not person.living or not scopes <= self.parts.scopes.of_role(person.role)
            return
        client = self.parts.clients.find(issued.client_id)
        assert client is not None
        made = Grant(issued.grant_id, person, Program(client), frozenset(issued.scopes))
        self.grants.append(made)
        self.access[issued.token] = Access(issued.token, made, self.now + timedelta(hours=1))

    @rule(scopes=few_scopes, role=st.sampled_from([Role.VIEWER, Role.OPERATOR]))
    def add_a_machine(self, scopes: set[str], role: Role) -> None:
        name = f"walk-{next(NUMBERS)}"
        machine = Person(self.parts.operators.add_machine(name, role).id, role)
        try:
            wanted = machine_registration(name, "client_secret_post", None)
            made, granted = self.parts.machines.add_client(wanted, name, scopes)
        except AppError:
            assert not scopes <= self.parts.scopes.of_role(role)
            return
        given = {"grant_type": "client_credentials", "client_id": made.client.id, "client_secret": made.secret}
        answer = self.http.post("/oauth/token", data=given)
        with self.parts.database.read() as connection:
            grant_id = connection.execute(select(grant.c.id).where(grant.c.client_id == made.client.id)).scalar_one()
        self.grants.append(Grant(grant_id, machine, Program(made.client), frozenset(granted)))
        self.learn(answer.json, self.grants[-1])

    # --- taking back ----------------------------------------------------------------------------------------------

    @precondition(lambda self: self.access)
    @rule(data=st.data())
    def revoke_access(self, data: st.DataObject) -> None:
        one = self.access[data.draw(st.sampled_from(sorted(self.access)))]
        if self.revoke(one.grant.program, one.secret):
            one.revoked = True

    @precondition(lambda self: self.refresh)
    @rule(data=st.data())
    def revoke_refresh(self, data: st.DataObject) -> None:
        one = self.refresh[data.draw(st.sampled_from(sorted(self.refresh)))]
        if self.revoke(one.grant.program, one.secret):
            one.grant.living = False

    def revoke(self, program: Program, secret: str) -> bool:
        answer = self.http.post("/oauth/revoke", data={"token": secret, "client_id": program.client.id})
        is_public = program.living and program.client.kind == "added" and program.client.is_public
        assert answer.status_code == (200 if is_public else 401), answer.text
        return is_public

    @precondition(lambda self: self.grants)
    @rule(data=st.data())
    def end_a_connection(self, data: st.DataObject) -> None:
        one = data.draw(st.sampled_from(self.grants))
        if data.draw(st.booleans()):
            return
        self.parts.connections.revoke(one.person.id, one.id)
        one.living = False

    @precondition(lambda self: self.grants)
    @rule(data=st.data(), scopes=few_scopes)
    def change_a_connection(self, data: st.DataObject, scopes: set[str]) -> None:
        one = data.draw(st.sampled_from(self.grants))
        try:
            changed = self.parts.connections.change(one.person.id, one.id, scopes, self.proof(one.person))
        except AppError:
            return
        assert one.living
        assert set(changed.scopes) <= self.parts.scopes.of_role(one.person.role)
        one.scopes = frozenset(changed.scopes)

    @rule(data=st.data())
    def remove_a_program(self, data: st.DataObject) -> None:
        program = data.draw(st.sampled_from(self.programs))
        if program.living and not data.draw(st.integers(0, 3)):
            self.parts.clients.remove(program.client.id)
            program.living = False
            self.end_all(lambda one: one.program is program)
            self.programs.append(self.new_program())

    @rule(data=st.data(), how=st.sampled_from(["disable", "password", "role"]))
    def touch_an_account(self, data: st.DataObject, how: str) -> None:
        person = data.draw(st.sampled_from(self.people))
        if data.draw(st.integers(0, 3)):  # seldom, since little lives on after it
            return
        if how == "role":
            person.role = Role.VIEWER if person.role is Role.OPERATOR else Role.OPERATOR
            with self.parts.database.write() as connection:
                connection.execute(update(operator).where(operator.c.id == person.id).values(role=person.role.value))
        elif person.living:
            if how == "disable" and sum(one.living for one in self.people) > 1:
                self.parts.operators.disable(person.id)
                person.living = False
            else:
                self.parts.operators.set_password(person.id, "a sentence that only this person would say")
            self.end_all(lambda one: one.person is person)

    def end_all(self, of: Callable[[Grant], bool]) -> None:
        for one in self.grants:
            one.living = one.living and not of(one)

    @rule(span=st.sampled_from(SPANS))
    def let_time_pass(self, span: timedelta) -> None:
        self.served.clock.move(seconds=span.total_seconds())

    # --- what always holds ----------------------------------------------------------------------------------------

    @invariant()
    def every_token_is_worth_what_its_grant_says(self) -> None:
        for one in self.access.values():
            found = self.parts.bearer.principal(f"Bearer {one.secret}", Surface.MCP)
            is_worth = one.grant.counts and not one.revoked and one.expires_at > self.now
            assert isinstance(found, Challenge) is not is_worth
            if isinstance(found, Challenge):
                continue
            granted = one.grant.scopes if one.narrowed_to is None else one.grant.scopes & one.narrowed_to
            assert found.scopes == self.parts.scopes.effective(granted, one.grant.person.role)
            assert found.caller.grant_id == one.grant.id

    @invariant()
    def no_row_stands_outside_of_a_grant(self) -> None:
        orphans = select(func.count()).select_from(token.outerjoin(grant, grant.c.id == token.c.grant_id))
        mine = [one.id for one in self.grants]
        counted = select(token.c.kind, func.count()).where(token.c.grant_id.in_(mine))
        with self.parts.database.read() as connection:
            assert connection.execute(orphans.where(grant.c.id.is_(None))).scalar_one() == 0
            for kind, number in connection.execute(
                counted.group_by(token.c.grant_id, token.c.generation, token.c.kind)
            ):
                assert number <= (MOST_A_GENERATION if kind == "access" else 1)


def to_us_span(span: timedelta) -> int:
    return span // timedelta(microseconds=1)


@pytest.fixture(scope="module")
def served_once(new_instance: Callable[[], Instance]) -> Iterator[Served]:
    with Served(new_instance()) as running:
        yield running


def test_no_reachable_state_holds_a_token_outside_of_its_grant(served_once: Served) -> None:
    AccessMachine.served = served_once
    bounded = {"max_examples": 30, "stateful_step_count": 50, "deadline": None, "derandomize": True}
    walk = settings(**bounded, suppress_health_check=list(HealthCheck))
    run_state_machine_as_test(AccessMachine, settings=walk)
