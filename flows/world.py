"""What a flow acts through: a session inside its run's transaction, and the few things that leave it."""

import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol, TypeVar

from sqlalchemy import Connection
from sqlalchemy.orm import Session

from core.clock import Clock
from core.ids import Ids
from flows.caller import Caller
from flows.confine import OutsideReach, unconfined
from flows.effects import Verb
from flows.guard import WATCHER, Limits, UndeclaredEffect, UnseenSql
from flows.operation import FlowError
from flows.steps import Answer, CallStep, Changes, Steps
from flows.watch import UNWATCHED, Watch

T = TypeVar("T")

ADDRESS = re.compile(r"[^\s@,;:<>\"]+@[^\s@,;:<>\"]+")
LONGEST_ADDRESS, LONGEST_SUBJECT, LONGEST_TEXT = 254, 200, 100_000
INSTRUCTIONS = 200_000  # of SQLite's machine, some milliseconds
IDS = re.compile(r"[a-z]{1,8}")


class TookTooLong(FlowError):
    """The flow was at work for longer than a run may be."""

    code = "took_too_long"
    public = "The flow took too long and was stopped. Nothing was changed."
    remedy = (
        "Ask for less at a time; COUNTERSIGN_WRITE_DEADLINE and COUNTERSIGN_READ_DEADLINE are how long a run may take."
    )


class Cancelled(FlowError):
    """The flow only read, and its client went away or took the call back."""

    code = "cancelled"
    public = "Nobody waited for the answer any more, so the run was stopped. Nothing was changed."
    remedy = "Call again, if the answer is wanted after all."


@dataclass(frozen=True, slots=True)
class Message:
    """What leaves after commit."""

    target: str
    to: str
    subject: str
    text: str


class Parts(Protocol):
    """What a run does around its calls to the outside: a write commits in parts, a read just goes on."""

    @property
    def verb(self) -> Verb:
        """What its calls count as."""

    @property
    def run_id(self) -> str:
        """Whose calls they are."""

    @property
    def declared_errors(self) -> tuple[type[FlowError], ...]:
        """The errors that say that the outside did nothing."""

    def leave(self, world: "World") -> None:
        """Commit what the run did so far, together with the step that says it is about to call."""

    def come_back(self) -> datetime | None:
        """Begin the next part; give until when it must be done."""


class World:
    """One run's world: `session`, `caller`, `now`, `new_id`, `send`, `call`, `progress` (design D16).

    All is checked and counted. Without a deadline it only reads; without `parts` it can't call.
    """

    def __init__(
        self,
        *,
        limits: Limits,
        caller: Caller,
        clock: Clock,
        ids: Ids,
        connect: Callable[[], AbstractContextManager[Connection]],
        deadline: datetime | None = None,
        until: datetime | None = None,
        parts: Parts | None = None,
        watch: Watch = UNWATCHED,
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
        self._until = until  # when a reading one is over
        self._watch = watch
        self._parts = parts
        self._is_calling = False
        # What was refused, or how a call was lost; a run whose flow swallows it doesn't end well all the same.
        self._breach: Exception | None = None
        self._session: _RunSession | None = None
        self._info: dict[Any, Any] = {}  # its connection's
        self._opened = ExitStack()
        self._kept: tuple[Changes, int] = ({}, 0)
        self._committed: Changes = {}

    @property
    def session(self) -> Session:
        """A SQLAlchemy session inside the run's transaction: its commit is a savepoint, only the run commits."""
        if self._session is None:
            with unconfined():
                connection = self._opened.enter_context(self._connect())
                if connection.dialect.name == "sqlite":
                    self._look_within_statements(connection)
            self._info = connection.info
            self._info[WATCHER] = self
            self._opened.callback(self._info.pop, WATCHER, None)
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
            raise self._refusal(f"send to {target}")
        if len(to) > LONGEST_ADDRESS or not to.isascii() or not ADDRESS.fullmatch(to):
            raise ValueError("not one plain e-mail address")
        if not 0 < len(subject) <= LONGEST_SUBJECT or not subject.isprintable() or len(text) > LONGEST_TEXT:
            raise ValueError("a subject is one line of 1 to 200 characters, a text at most 100,000")
        self.messages.append(Message(target, to, subject, text))
        self.steps.add(Verb.SEND, target)

    def call(self, target: str, fn: Callable[[str], T]) -> T:
        """Do something outside, now, and give what `fn(key)` gives; what the run did so far is committed before it.

        `key` is this call's name for the outside: send it along, so that a repetition can be recognised. `fn` runs
        without a transaction: it may use sockets and files, but no session. When it raises one of the flow's declared
        errors the outside did nothing. When it raises anything else, or the run ends badly from here on, the run is
        `unknown`, and nothing is called a second time, also where the flow swallows the error (design D5). A flow that
        only reads calls what it declares with `reads_outside`, and may do without an answer.
        Raises UndeclaredEffect for any other target, and inside of a block that commits or rolls back by itself.
        """
        parts = self._parts
        if parts is None or self._is_calling or target not in self._limits.outside[parts.verb]:
            raise self._refusal(f"call of {target}")
        if self._session is not None and self._session.is_in_a_block:
            raise self._refusal(f"call of {target} inside of a transaction's block")
        self._settle()
        self.check_deadline()
        step = self.steps.add_call(parts.verb, target, parts.run_id)
        try:
            with self._away(parts):
                return self._answer(step, fn, parts)
        except Exception as error:
            is_answer = step.answer is Answer.DECLINED and isinstance(error, parts.declared_errors)
            if parts.verb is Verb.CALL and not is_answer:
                self._breach = self._breach or error
            raise

    def progress(self, done: float, total: float | None = None, message: str | None = None) -> None:
        """Tell whoever waits how far the run is: `done` of `total`, in any unit, and what it is at in a few words.

        A client hears it when it asked to, in its own words or not at all: nothing may depend on it. Like every
        statement this is a point at which a run ends whose time is over, and one that only reads also when nobody
        waits any more. Raises TookTooLong, Cancelled.
        """
        self.check_deadline()
        self._watch.progress(done, total, message)

    def what_stays(self) -> Steps:
        """Give the steps that a rollback leaves: the calls, and what was committed before the last of them."""
        self.steps.restore(self._committed)
        return self.steps

    def check_deadline(self) -> None:
        """Raise TookTooLong when the run's time is over, or Cancelled when it only reads and nobody waits for it."""
        over = self._deadline or self._until
        if over is not None and self._clock.now() > over:
            raise TookTooLong(detail=self._limits.flow_id)
        if self._deadline is None and self._watch.is_gone():
            raise Cancelled(detail=self._limits.flow_id)

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
            raise self._refusal("commit of the run's transaction")

    def rolling_back(self) -> None:
        """Fail the run whose flow gave up its transaction: what was paid and written in it is gone."""
        if self._deadline is not None:
            self._refusal("rollback of the run's transaction")

    def elsewhere(self, what: str, *, is_ours: bool) -> FlowError | None:
        """Give the refusal of work on another connection; None where it is the outside that is called."""
        if self._is_calling and not is_ours:
            return None
        self._breach = UnseenSql(detail=f"{self._limits.flow_id}: {what}")
        return self._breach

    def outside(self, what: str) -> FlowError | None:
        """Give the refusal of what the flow does beside its world; None while it calls the outside."""
        if self._is_calling:
            return None
        self._breach = OutsideReach(detail=f"{self._limits.flow_id}: {what}")
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
        self._settle()
        self.check_deadline()

    def close(self) -> None:
        """Take the session away and stop watching its connection."""
        self._opened.close()

    def _look_within_statements(self, connection: Connection) -> None:
        """Let SQLite, which works in this process, stop in the middle of a statement (PostgreSQL has its timeouts)."""
        driver: Any = connection.connection.driver_connection
        driver.set_progress_handler(self._is_over, INSTRUCTIONS)
        self._opened.callback(driver.set_progress_handler, None, 0)

    def _is_over(self) -> bool:
        try:
            self.check_deadline()
        except (TookTooLong, Cancelled):
            return True
        return False

    def _answer(self, step: CallStep, fn: Callable[[str], T], parts: Parts) -> T:
        try:
            answer = fn(step.key)
        except parts.declared_errors:
            if self._breach is None:  # else it is what was refused to `fn`, by no word of the outside
                step.answer = Answer.DECLINED
            raise
        step.answer = Answer.GIVEN
        return answer

    def _settle(self) -> None:
        if self._breach is not None:
            raise self._breach
        if self._session is not None:
            if self._deadline is None:
                self._session.flush()  # would raise, were there anything to write
            else:
                self._session.commit()

    @contextmanager
    def _away(self, parts: Parts) -> Iterator[None]:
        """Be without a transaction; a new part begins whatever happens outside."""
        with self._unwatched():
            self._leave(parts)
            self._is_calling = True
            try:
                yield
            finally:
                self._is_calling = False
                with unconfined():
                    self._deadline = parts.come_back()

    def _leave(self, parts: Parts) -> None:
        is_left = False
        try:
            with unconfined():
                parts.leave(self)
            is_left = True
        finally:
            if not is_left:
                self.steps.calls.pop()  # it isn't made
        self._committed = self.steps.changes()
        self.messages.clear()
        self.kept()

    @contextmanager
    def _unwatched(self) -> Iterator[None]:
        """Let the run write its own rows on its flow's connection; the flow itself can't use it then (`confined`)."""
        watching = self._info.pop(WATCHER, None)
        try:
            yield
        finally:
            if watching is not None:
                self._info[WATCHER] = watching

    def _refusal(self, what: str) -> UndeclaredEffect:
        self._breach = UndeclaredEffect(detail=f"{self._limits.flow_id}: {what}")
        return self._breach


class _RunSession(Session):
    """A session in a run's transaction whose world hears what the flow keeps and what it gives up."""

    def __init__(self, connection: Connection, world: World) -> None:
        super().__init__(connection, join_transaction_mode="create_savepoint")
        self._world = world

    @property
    def is_in_a_block(self) -> bool:
        """Whether a `with` of `begin` or `begin_nested` is open, which a commit in the middle of it would break."""
        return self.in_nested_transaction() or self._trans_context_manager is not None

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
