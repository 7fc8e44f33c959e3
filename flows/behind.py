"""Runs of read calls are written behind: one thread a process, in groups, never dropped (design D7)."""

import atexit
import logging
import os
import threading
import time
import weakref
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, Table
from sqlalchemy.exc import DBAPIError, OperationalError, SQLAlchemyError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from core.db import Database
from core.prepared import insert_sql
from flows import models

log = logging.getLogger(__name__)

Row = Mapping[str, Any]
MOST_WAITING = 5_000  # calls; the next one waits until there is room
LARGEST_GROUP = 500
GATHER_SECONDS = 0.1
RETRY_SECONDS = 0.25
CLOSE_SECONDS = 10.0


class TraceWriter:
    """Writes run, steps and audit row of each read call together; `put` returns at once unless the queue is full."""

    def __init__(self, database: Database, audit: Table) -> None:
        self._database = database
        self._inserts = [insert_sql(database.writing, table) for table in (models.run, models.step, audit)]
        self._start_afresh()
        afresh = weakref.WeakMethod(self._start_afresh)
        # A forked child has neither the thread nor a say in what its parent still has to write.
        os.register_at_fork(after_in_child=lambda: (call := afresh()) and call())
        atexit.register(self.close)

    def put(self, run_row: Row, step_rows: Sequence[Row], audit_row: Row) -> None:
        """Take one read call's rows; waits while the queue is full."""
        with self._changed:
            while len(self._waiting) >= MOST_WAITING:
                self._changed.wait()
            self._waiting.append((run_row, step_rows, audit_row))
            self._taken += 1
            if self._thread is None or not self._thread.is_alive():
                self._start()
            elif self._idle:
                self._changed.notify_all()

    def flush(self, timeout: float) -> bool:
        """Wait until everything taken so far is written; False when `timeout` seconds were not enough."""
        end = time.monotonic() + timeout
        with self._changed:
            wanted = self._taken
            self._hurry.set()
            self._changed.notify_all()
            while self._written < wanted:
                left = end - time.monotonic()
                if left <= 0:
                    return False
                self._changed.wait(left)
        return True

    def close(self) -> None:
        """Write what is left and end the thread; a later `put` starts it again."""
        with self._changed:
            thread, self._closing = self._thread, True
            self._hurry.set()
            self._changed.notify_all()
        if thread is not None:
            thread.join(CLOSE_SECONDS)
            if thread.is_alive():
                log.error("%d runs of read calls could not be written", self._taken - self._written)

    def _start_afresh(self) -> None:
        self._changed = threading.Condition()
        self._hurry = threading.Event()
        self._waiting: deque[tuple[Row, Sequence[Row], Row]] = deque()
        self._taken = self._written = 0
        self._thread: threading.Thread | None = None
        self._idle = self._closing = False

    def _start(self) -> None:
        self._closing = False
        self._thread = threading.Thread(target=self._run, name="trace-writer", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        connection: Connection | None = None
        while group := self._next_group():
            is_written = False
            try:
                connection = self._write(connection, group)
                is_written = True
            finally:
                if not is_written:
                    self._give_back(group)  # the next `put` starts a thread that writes it
            with self._changed:
                self._written += len(group)
                self._changed.notify_all()
        if connection is not None:
            connection.close()

    def _next_group(self) -> list[tuple[Row, Sequence[Row], Row]]:
        """Wait for rows and a moment longer for more; an empty group means: the end."""
        with self._changed:
            self._idle = True
            while not self._waiting and not self._closing:
                self._changed.wait()
            self._idle = False
            if not self._waiting:
                self._thread = None
                return []
        self._hurry.wait(GATHER_SECONDS)
        with self._changed:
            self._hurry.clear()
            if self._closing:
                self._hurry.set()
            group = [self._waiting.popleft() for _ in range(min(len(self._waiting), LARGEST_GROUP))]
            self._changed.notify_all()
        return group

    def _give_back(self, group: list[tuple[Row, Sequence[Row], Row]]) -> None:
        with self._changed:
            self._waiting.extendleft(reversed(group))
            self._changed.notify_all()

    def _write(self, connection: Connection | None, group: list[tuple[Row, Sequence[Row], Row]]) -> Connection | None:
        """Write the group, again and again while the database is busy; row by row when one of them can't be written."""
        while True:
            try:
                connection = connection or self._connect()
                self._insert(connection, group)
            except (SQLAlchemyError, ValueError, OverflowError) as error:
                if _passes(error):
                    log.warning("the trace writer waits for the database: %s", getattr(error, "orig", error))
                    _give_up(connection)
                    connection = None
                    time.sleep(RETRY_SECONDS)
                    continue
                if len(group) > 1:
                    for one in group:
                        connection = self._write(connection, [one])
                else:
                    log.error("a run can't be written: %s", group[0][2], exc_info=error)
                return connection
            else:
                return connection

    def _insert(self, connection: Connection, group: list[tuple[Row, Sequence[Row], Row]]) -> None:
        runs, steps, audits = self._inserts
        with connection.begin():
            connection.exec_driver_sql(runs, [run for run, _, _ in group])
            if step_rows := [row for _, rows, _ in group for row in rows]:
                connection.exec_driver_sql(steps, step_rows)
            connection.exec_driver_sql(audits, [audit for _, _, audit in group])

    def _connect(self) -> Connection:
        """Open a connection of our own: what it commits may be lost with the machine, never be half there."""
        connection = self._database.writing.connect()
        driver: Any = connection.connection.driver_connection
        connection.detach()
        try:
            if self._database.is_sqlite:
                driver.execute(
                    "PRAGMA synchronous=NORMAL"
                )  # refused inside a transaction, which SQLAlchemy would begin
            else:
                with connection.begin():
                    connection.exec_driver_sql("SET synchronous_commit=off")
        except SQLAlchemyError:
            _give_up(connection)
            raise
        return connection


def _passes(error: Exception) -> bool:
    """Tell whether it is the database's state and not the rows that can't be written."""
    lost = isinstance(error, DBAPIError) and error.connection_invalidated
    return lost or isinstance(error, OperationalError | PoolTimeout)


def _give_up(connection: Connection | None) -> None:
    """Close a connection that may be broken."""
    if connection is not None:
        connection.invalidate()
        connection.close()
