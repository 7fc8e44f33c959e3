"""Operators: the people who have an account."""

import re
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, bindparam, delete, insert, select, update
from sqlalchemy.exc import IntegrityError

from auth.models import MACHINE, PERSON, grant, operator, session
from auth.passwords import Passwords
from auth.throttle import email_key, forgive, proof_key
from core.clock import Clock, from_us, to_us
from core.db import Database
from core.errors import BadRequest, Conflict, NotFound, NotSignedIn
from core.ids import Ids, digest_of
from flows.caller import Role
from policy.audit import Audit

EMAIL = re.compile(r"[^\s@\x00-\x20\x7f<>\"(),;\\]{1,64}@[^\s@\x00-\x20\x7f<>\"(),;\\]{1,189}")
MACHINE_NAME = re.compile(r"machine:[a-z0-9][a-z0-9._-]{0,63}", re.ASCII)  # what stands where people have an address
OF_MACHINES = (Role.VIEWER, Role.OPERATOR)
NO_PASSWORD = "!"  # verifies nothing
BY_ID = select(operator).where(operator.c.id == bindparam("id"))
BY_EMAIL = select(operator).where(operator.c.email == bindparam("email"))


class OperatorExists(Conflict):
    """The e-mail address has an account already."""

    code = "operator_exists"
    public = "There is already an operator with this e-mail address."
    remedy = "Use the account there is, or another address."


@dataclass(frozen=True, slots=True)
class Operator:
    """One person with an account, or one machine, without the password."""

    id: str
    email: str  # of a machine `machine:NAME`
    role: Role
    kind: str
    must_change: bool
    created_at: datetime
    disabled_at: datetime | None
    stamp: str = field(repr=False)  # another one after each change of the password


class Operators:
    """Keeps the people; whoever is disabled or gets another password loses sessions and connections at once."""

    def __init__(self, database: Database, ids: Ids, clock: Clock, passwords: Passwords, audit: Audit) -> None:
        self._database = database
        self._ids = ids
        self._clock = clock
        self._passwords = passwords
        self._audit = audit

    def add(self, email: str, role: Role, password: str, *, must_change: bool = False) -> Operator:
        """Make an account; raise OperatorExists, BadRequest for a bad address, WeakPassword."""
        address = normal_email(email)
        if not EMAIL.fullmatch(address):
            raise BadRequest("This is not an e-mail address.")
        return self._add(address, role, PERSON, self._passwords.hash(password), must_change=must_change)

    def add_machine(self, name: str, role: Role) -> Operator:
        """Make an account that acts for nobody, without password and sessions; raise OperatorExists, BadRequest.

        It decides nothing, so its role is viewer or operator.
        """
        address = f"machine:{name}"
        if not MACHINE_NAME.fullmatch(address):
            raise BadRequest("A machine's name has 1 to 64 of a-z, 0-9, dots, dashes and underscores.")
        if role not in OF_MACHINES:
            raise BadRequest(f"A machine decides nothing: its role is {' or '.join(OF_MACHINES)}.")
        return self._add(address, role, MACHINE, NO_PASSWORD)

    def _add(self, address: str, role: Role, kind: str, password_hash: str, *, must_change: bool = False) -> Operator:
        operator_id = self._ids.new("op")
        row = {
            "id": operator_id,
            "email": address,
            "role": Role(role).value,
            "kind": kind,
            "password_hash": password_hash,
            "must_change": must_change,
            "created_at": to_us(self._clock.now()),
            "disabled_at": None,
        }
        try:
            with self._database.write() as connection:
                connection.execute(insert(operator), row)
                self._note(connection, "operator.added", operator_id)
        except IntegrityError:
            raise OperatorExists from None
        return _operator(row)

    def get(self, operator_id: str) -> Operator:
        """Give the person of this id; raise NotFound."""
        with self._database.read() as connection:
            row = connection.execute(BY_ID, {"id": operator_id}).mappings().first()
        if row is None:
            raise NotFound
        return _operator(row)

    def find_by_email(self, email: str) -> Operator | None:
        """Give the person of this address, whatever its case, or the machine of this name."""
        row = self._find(email)
        return None if row is None else _operator(row)

    def list(self) -> list[Operator]:
        """Give everybody, by address."""
        with self._database.read() as connection:
            rows = connection.execute(select(operator).order_by(operator.c.email)).mappings().all()
        return [_operator(row) for row in rows]

    def find_by_password(self, email: str, password: str) -> Operator | None:
        """Give the living account that this pair opens; None for anything else, in the same time."""
        row = self._find(email)
        stored = row["password_hash"] if row is not None and _may_sign_in(row) else None
        return _operator(row) if self._passwords.verify(stored, password) and row is not None else None

    def has_password(self, operator_id: str, password: str) -> bool:
        """Tell whether `password` is this living person's."""
        with self._database.read() as connection:
            row = connection.execute(BY_ID, {"id": operator_id}).mappings().first()
        return self._passwords.verify(row["password_hash"] if row is not None and _may_sign_in(row) else None, password)

    def disable(self, operator_id: str) -> None:
        """Close an account: its sessions and connections end with this; raise NotFound."""
        now = to_us(self._clock.now())
        with self._database.write() as connection:
            changed = connection.execute(
                update(operator)
                .where(operator.c.id == operator_id, operator.c.disabled_at.is_(None))
                .values(disabled_at=now)
            )
            if not changed.rowcount:
                raise NotFound
            self._cut_off(connection, operator_id, now)
            self._note(connection, "operator.disabled", operator_id)

    def set_password(self, operator_id: str, password: str, *, must_change: bool = False) -> Operator:
        """Replace a person's password; raise NotFound, for a machine as well.

        Every session and connection of this person ends, and so does every pause that failed tries brought: this is
        how an administrator undoes a lock-out that a stranger made.
        """
        stored = self._passwords.hash(password)
        now = to_us(self._clock.now())
        with self._database.write() as connection:
            changed = connection.execute(
                update(operator)
                .where(operator.c.id == operator_id, operator.c.kind == PERSON)
                .values(password_hash=stored, must_change=must_change)
                .returning(operator)
            )
            row = changed.mappings().first()
            if row is None:
                raise NotFound
            self._cut_off(connection, operator_id, now)
            forgive(connection, self._ids, now, email_key(row["email"]), proof_key(operator_id))
            self._note(connection, "operator.password_set", operator_id)
        return _operator(row)

    def _cut_off(self, connection: Connection, operator_id: str, now: int) -> None:
        # Checklist K6: whoever knew the old password may have connected a client with it. The row of the person is
        # locked by the update before this; whoever opens a session or makes a grant meanwhile waits in `lock_living`.
        connection.execute(delete(session).where(session.c.operator_id == operator_id))
        connection.execute(
            update(grant).where(grant.c.operator_id == operator_id, grant.c.revoked_at.is_(None)).values(revoked_at=now)
        )

    def _find(self, email: str) -> Any:
        address = normal_email(email)
        if not EMAIL.fullmatch(address) and not MACHINE_NAME.fullmatch(address):
            return None
        with self._database.read() as connection:
            return connection.execute(BY_EMAIL, {"email": address}).mappings().first()

    def _note(self, connection: Connection, event: str, operator_id: str) -> None:
        self._audit.write(connection, self._audit.row(event, operator_id=operator_id))


def lock_living(connection: Connection, operator_id: str) -> str:
    """Hold this person's account as it is until the transaction ends, and give its stamp; raise NotSignedIn.

    A machine never signs in. A sign-in or a consent that races a change of the password or a closed account can't
    outlive it.
    """
    row = (
        connection.execute(
            select(operator.c.password_hash)
            .where(operator.c.id == operator_id, operator.c.disabled_at.is_(None), operator.c.kind == PERSON)
            .with_for_update()
        )
        .mappings()
        .first()
    )
    if row is None:
        raise NotSignedIn
    return _stamp(row)


def normal_email(email: str) -> str:
    """Give the form in which an address is stored and looked up."""
    return email.strip().lower()


def _operator(row: Any) -> Operator:
    return Operator(
        id=row["id"],
        email=row["email"],
        role=Role(row["role"]),
        kind=row["kind"],
        must_change=bool(row["must_change"]),
        created_at=from_us(row["created_at"]),
        disabled_at=None if row["disabled_at"] is None else from_us(row["disabled_at"]),
        stamp=_stamp(row),
    )


def _may_sign_in(row: Any) -> bool:
    return row["disabled_at"] is None and row["kind"] == PERSON


def _stamp(row: Any) -> str:
    return digest_of(row["password_hash"])
