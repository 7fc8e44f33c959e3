"""Escapes that the check can't see. The oracle sees the first ones; the second nobody does: it is not a sandbox.

docs/security.md names them all; a new one belongs there.
"""

import _thread
import ctypes
import multiprocessing.util
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import psycopg
from sqlalchemy import event, func, select, update

from flows.confine import CONFINED
from flows.world import World
from tests.flows.escapes.statements import Act, change, execute
from tests.flows.escapes.tables import VIEW, Ledger, Owner, Place, Watched

RENAME = "UPDATE esc_owner SET name = 'gone'"
MKDIR = ctypes.CDLL(None).mkdir


@dataclass(frozen=True)
class Passing:
    """An escape with what it touches beyond its declaration, and why the check doesn't see that."""

    act: Act
    why: str
    beyond: frozenset[str] = frozenset()
    only_on: str = ""


def use_the_cursor_of_a_result(world: World, _place: Place) -> None:
    cursor: Any = world.session.connection().execute(select(Ledger.id)).cursor
    cursor.execute(RENAME)


def use_private_names(world: World, _place: Place) -> None:
    connection: Any = world.session.connection()
    connection._dbapi_connection.cursor().execute(RENAME)


def rewrite_a_statement(world: World, _place: Place) -> None:
    connection = world.session.connection()
    event.listen(connection, "before_cursor_execute", lambda *_: (RENAME, ()), retval=True)
    connection.execute(update(Ledger).values(value=1))


def let_itself_free(_world: World, place: Place) -> None:
    watcher, CONFINED.watcher = CONFINED.watcher, None
    with place.database.snapshot() as connection:
        connection.execute(select(Owner.name)).all()
    CONFINED.watcher = watcher


def write_to_an_open_file(_world: World, place: Place) -> None:
    place.opened.write("more")
    place.opened.flush()


def send_on_an_open_socket(_world: World, place: Place) -> None:
    place.connected.send(b"x")


def connect_in_c(_world: World, place: Place) -> None:
    connection = psycopg.pq.PGconn.connect_start(f"host=127.0.0.1 port={place.port}".encode())
    connection.finish()


def start_a_bare_thread(_world: World, place: Place) -> None:
    done = _thread.allocate_lock()
    done.acquire()

    def make() -> None:
        (place.folder / "made").mkdir()
        done.release()

    _thread.start_new_thread(make, ())
    done.acquire()


def call_loaded_c(_world: World, place: Place) -> None:
    MKDIR(str(place.folder / "made").encode(), 0o700)


def spawn(_world: World, place: Place) -> None:
    arguments = [b"touch", str(place.folder / "made").encode()]
    os.waitpid(multiprocessing.util.spawnv_passfds(b"/usr/bin/touch", arguments, []), 0)


def make_a_pipe(_world: World, place: Place) -> None:
    os.mkfifo(place.folder / "made")


SEEN_BY_THE_ORACLE: Mapping[str, Passing] = {
    "a view": Passing(
        execute(lambda: select(VIEW.c.name)),
        "to SQLAlchemy a view is a table: its target must name the tables behind it",
        frozenset({"reads esc_owner"}),
    ),
    "a trigger": Passing(
        change(lambda: update(Watched).values(value=1)),
        "what a trigger does only the database knows: the target must name its tables",
        frozenset({"writes esc_note"}),
    ),
    "a function of the database": Passing(
        execute(lambda: select(func.esc_rename())),
        "a function that somebody made in the database looks like any other",
        frozenset({"writes esc_owner"}),
        only_on="postgresql",
    ),
    "the cursor of a result": Passing(
        use_the_cursor_of_a_result,
        "`result.cursor` is the driver's own, and no event tells of it",
        frozenset({"writes esc_owner"}),
    ),
    "SQLAlchemy's private names": Passing(
        use_private_names,
        "`connection._dbapi_connection` is the driver's own, and no event tells of it",
        frozenset({"writes esc_owner"}),
    ),
    "an event that rewrites a statement": Passing(
        rewrite_a_statement,
        "a listener of `before_cursor_execute` may put another text in the place of what was checked",
        frozenset({"writes esc_owner"}),
    ),
    "the check's own names": Passing(
        let_itself_free,
        "a flow runs in the same process: it can switch off what watches it",
        frozenset({"reads esc_owner"}),
    ),
}
SEEN_BY_NOBODY: Mapping[str, Passing] = {
    "a file that was open before": Passing(write_to_an_open_file, "writing to an open file has no audit event"),
    "a socket that was connected before": Passing(
        send_on_an_open_socket, "sending on a connected socket has no audit event (http.client and smtplib have)"
    ),
    "a driver that connects in C": Passing(
        connect_in_c, "libpq and other C libraries open sockets and files without an audit event"
    ),
    "C that is loaded already": Passing(call_loaded_c, "calling a C function that was looked up before has none"),
    "a process that multiprocessing spawns": Passing(
        spawn, "_posixsubprocess.fork_exec has no audit event (subprocess has its own; a spawned worker gets no work)"
    ),
    "a named pipe or device": Passing(make_a_pipe, "os.mkfifo and os.mknod have no audit event"),
}
if sys.version_info < (3, 12):
    SEEN_BY_NOBODY = {
        **SEEN_BY_NOBODY,
        "a bare thread": Passing(
            start_a_bare_thread, "_thread.start_new_thread has an audit event from Python 3.12 on"
        ),
    }
