"""What a flow acts through: a session inside its run's transaction, and the few things that leave it."""

import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from sqlalchemy import Connection
from sqlalchemy.orm import Session

from core.clock import Clock, to_us
from core.ids import Ids
from flows.caller import Caller
from flows.effects import Verb
from flows.guard import WATCHER, Limits, UndeclaredEffect, UnseenSql
from flows.operation import FlowError

ADDRESS = re.compile(r"[^\s@,;:<>\"]+@[^\s@,;:<>\"]+")
LONGEST_ADDRESS, LONGEST_SUBJECT, LONGEST_TEXT = 254, 200, 100_000
IDS = re.compile(r"[a-z]{1,8}")


class TookTooLong(FlowError):
    """The flow was at work for longer than a run may be."""

    code = "took_too_long"
    public = "The flow took too long and was stopped. Nothing was changed."


@dataclass(slots=True)
class Step:
    """One effect that a run really had: how often, on how many rows; never values."""

    verb: Verb
    target: str
    at: int  # microseconds, its first use
    times: int = 0
    rows: int = 0
    counts_rows: bool = True

    @property
    def detail(self) -> str:
        """Say how much it was, in words."""
        if self.verb is Verb.SEND:
            return _count(self.times, "message")
        statements = _count(self.times, "statement")
        if self.verb is Verb.READ or not self.counts_rows:
            return statements
        return f"{_count(self.rows, 'row')} in {statements}"


Changes = dict[tuple[Verb, str], Step]


@dataclass(frozen=True, slots=True)
class Message:
    """What leaves after commit."""

    target: str
    to: str
    subject: str
    text: str


@dataclass(slots=True)
class Steps:
    """The steps of one run, one an effect, in order of first use."""

    _clock: Clock
    _steps: dict[tuple[Verb, str], Step] = field(default_factory=dict)

    def add(self, verb: Verb, target: str) -> None:
        """Count one use of an effect."""
        step = self._steps.get((verb, target))
        if step is None:
            step = self._steps[verb, target] = Step(verb, target, to_us(self._clock.now()))
        step.times += 1

    def add_rows(self, verb: Verb, target: str, rows: int | None) -> None:
        """Count the rows of that use; None when the database didn't say."""
        step = self._steps[verb, target]
        step.counts_rows = step.counts_rows and rows is not None
        step.rows += rows or 0

    def changes(self) -> Changes:
        """Give a copy of all but the reads, which nothing takes back."""
        return {key: replace(step) for key, step in self._steps.items() if step.verb is not Verb.READ}

    def restore(self, changes: Changes) -> None:
        """Let the changes be these again."""
        reads = {key: step for key, step in self._steps.items() if step.verb is Verb.READ}
        self._steps = reads | {key: replace(step) for key, step in changes.items()}

    def __iter__(self) -> Iterator[Step]:
        """Give the steps in order."""
        return iter(self._steps.values())

    def rows_of(self, run_id: str) -> list[dict[str, Any]]:
        """Give them as rows of `cs_step`."""
        return [
            {
                "run_id": run_id,
                "position": position,
                "verb": step.verb.value,
                "target": step.target,
                "detail": step.detail,
                "at": step.at,
            }
            for position, step in enumerate(self, start=1)
        ]


class World:
    """One run's world: `session`, `caller`, `now`, `new_id`, `send` (design D16); every use is checked and counted."""

    def __init__(
        self,
        *,
        limits: Limits,
        caller: Caller,
        clock: Clock,
        ids: Ids,
        connect: Callable[[], AbstractContextManager[Connection]],
        deadline: datetime | None = None,
    ) -> None:
        self.caller = caller
        self.now = clock.now()
        self.steps = Steps(clock)
        self.messages: list[Message] = []
        self._limits = limits
        self._clock = clock
        self._ids = ids
        self._connect = connect
        self._deadline = deadline  # None: a reading world
        self._breach: FlowError | None = None  # what was refused; a flow that swallows it has failed all the same
        self._session: Session | None = None
        self._opened = ExitStack()
        self._kept: tuple[Changes, int] = ({}, 0)

    @property
    def session(self) -> Session:
        """A SQLAlchemy session inside the run's transaction: its commit is a savepoint, only the run commits."""
        if self._session is None:
            connection = self._opened.enter_context(self._connect())
            info = connection.info
            info[WATCHER] = self
            self._opened.callback(info.pop, WATCHER, None)
            self._session = _RunSession(connection, self)
            if self._deadline is not None:  # a reading one ends with its connection: nothing was written
                self._opened.callback(Session.close, self._session)
        return self._session

    def new_id(self, kind: str) -> str:
        """Give a new time-ordered id like `rf_0198…`; `kind` is 1 to 8 letters a-z."""
        if not IDS.fullmatch(kind):
            raise ValueError("a kind of id is 1 to 8 letters a-z")
        return self._ids.new(kind)

    def send(self, target: str, *, to: str, subject: str, text: str) -> None:
        """Let a message leave after commit, once; raises UndeclaredEffect, or ValueError for an address or subject."""
        if (Verb.SEND, target) not in self._limits.targets or self._deadline is None:
            self._breach = UndeclaredEffect(detail=f"{self._limits.flow_id}: send to {target}")
            raise self._breach
        if len(to) > LONGEST_ADDRESS or not to.isascii() or not ADDRESS.fullmatch(to):
            raise ValueError("not one plain e-mail address")
        if not 0 < len(subject) <= LONGEST_SUBJECT or not subject.isprintable() or len(text) > LONGEST_TEXT:
            raise ValueError("a subject is one line of 1 to 200 characters, a text at most 100,000")
        self.messages.append(Message(target, to, subject, text))
        self.steps.add(Verb.SEND, target)

    def check_deadline(self) -> None:
        """Raise TookTooLong when the run's time is over."""
        if self._deadline is not None and self._clock.now() > self._deadline:
            raise TookTooLong(detail=self._limits.flow_id)

    def before(self, compiled: Any) -> None:
        """Check a statement that is about to run, and count it."""
        self.check_deadline()
        try:
            touched = self._limits.judge(getattr(compiled, "seen", None))
        except FlowError as refusal:
            self._breach = refusal
            raise
        for verb, target in touched:
            self.steps.add(verb, target)

    def after(self, compiled: Any, rows: int | None) -> None:
        """Count the rows that it changed."""
        for verb, target in self._limits.judge(compiled.seen):
            if verb is not Verb.READ:
                self.steps.add_rows(verb, target, rows)

    def committing(self) -> None:
        """Refuse to end the run's transaction from inside the flow."""
        if self._deadline is not None:
            self._breach = UndeclaredEffect(detail=f"{self._limits.flow_id}: commit of the run's transaction")
            raise self._breach

    def elsewhere(self) -> FlowError:
        """Give the refusal of a statement on another connection than the run's."""
        self._breach = UnseenSql(detail=f"{self._limits.flow_id}: another connection")
        return self._breach

    def kept(self) -> None:
        """Take note that the flow has committed what it did so far: a rollback no longer reaches it."""
        self._kept = self.steps.changes(), len(self.messages)

    def rolled_back(self) -> None:
        """Forget the changes and messages of what the flow took back."""
        changes, messages = self._kept
        self.steps.restore(changes)
        del self.messages[messages:]

    def closed(self, *, unsaved: bool) -> None:
        """Fail a run whose flow closed its session over changes: they are gone and it doesn't know.

        Nothing is raised: that would stand in the way of an error that closes the session.
        """
        if self._deadline is not None and (unsaved or self.steps.changes() != self._kept[0]):
            self._breach = UndeclaredEffect(detail=f"{self._limits.flow_id}: close of the session before its commit")

    def finish(self) -> None:
        """Write what the session still holds, checked like everything else; raises a refusal that was swallowed."""
        if self._breach is not None:
            raise self._breach
        if self._session is not None:
            if self._deadline is None:
                self._session.flush()  # would raise, were there anything to write
            else:
                self._session.commit()
        self.check_deadline()

    def close(self) -> None:
        """Take the session away and stop watching its connection."""
        self._opened.close()


class _RunSession(Session):
    """A session in a run's transaction whose world hears what the flow keeps and what it gives up."""

    def __init__(self, connection: Connection, world: World) -> None:
        super().__init__(connection, join_transaction_mode="create_savepoint")
        self._world = world

    def commit(self) -> None:
        super().commit()
        self._world.kept()

    def rollback(self) -> None:
        super().rollback()
        self._world.rolled_back()

    def close(self) -> None:
        self._world.closed(unsaved=bool(self.new or self.dirty or self.deleted))
        super().close()


@contextmanager
def closing(world: World) -> Iterator[World]:
    """Give `world` and close it, whatever happened in it."""
    try:
        yield world
    finally:
        world.close()


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
