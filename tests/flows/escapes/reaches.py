"""Escapes beside the database: sockets, processes, threads, files, other databases, C."""

import asyncio
import contextvars
import ctypes
import http.client
import logging
import multiprocessing
import os
import shelve
import shutil
import signal
import smtplib
import socket
import sqlite3
import subprocess
import tempfile
import threading
import urllib.request
from collections.abc import Callable, Mapping
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import psycopg

from flows.world import World
from tests.flows.escapes.statements import Act
from tests.flows.escapes.tables import Place


def here(act: Callable[[Place], Any]) -> Act:
    return lambda _world, place: act(place)


def connect(place: Place) -> None:
    socket.create_connection(("127.0.0.1", place.port), 2).close()


def tell(place: Place) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        sender.sendto(b"x", ("127.0.0.1", place.port))


def ask_by_asyncio(place: Place) -> None:
    asyncio.run(asyncio.open_connection("127.0.0.1", place.port))


def fork(_place: Place) -> None:
    if os.fork() == 0:
        os._exit(0)


def pool_of_threads(_place: Place) -> None:
    with ThreadPoolExecutor() as pool:
        pool.submit(int).result()


def pool_of_processes(_place: Place) -> None:
    with ProcessPoolExecutor(mp_context=multiprocessing.get_context("fork")) as pool:
        pool.submit(int).result()


def open_by_number(place: Place) -> None:
    os.close(os.open(place.folder / "made", os.O_WRONLY | os.O_CREAT))


def log_to_a_file(place: Place) -> None:
    logging.FileHandler(place.folder / "made").emit(logging.makeLogRecord({"msg": "x"}))


def keep_on_a_shelf(place: Place) -> None:
    with shelve.open(str(place.folder / "made"), "n") as shelf:  # noqa: S301 - an escape
        shelf["x"] = 1


def leave_the_context(place: Place) -> None:
    contextvars.Context().run(place.file.write_text, "changed")


def swallow(_world: World, place: Place) -> None:
    with suppress(Exception):  # what a careless flow would write
        place.file.unlink()


def change_the_file_of_a_database(place: Place) -> None:
    sqlite3.connect(place.folder / "made").execute("CREATE TABLE x (y)")


OUTSIDE: Mapping[str, Act] = {
    "a socket": here(connect),
    "a datagram": here(tell),
    "a name": here(lambda _: socket.getaddrinfo("localhost", 80)),
    "urllib": here(lambda p: urllib.request.urlopen(f"http://127.0.0.1:{p.port}/")),
    "http.client": here(lambda p: http.client.HTTPConnection("127.0.0.1", p.port).request("GET", "/")),
    "smtplib": here(lambda p: smtplib.SMTP("127.0.0.1", p.port, timeout=2)),
    "asyncio": here(ask_by_asyncio),
    "psycopg by name": here(lambda p: psycopg.connect(f"host=localhost port={p.port} connect_timeout=2")),
    "subprocess": here(lambda p: subprocess.run(["touch", p.folder / "made"], check=True)),
    "os.system": here(lambda p: os.system(f"touch {p.folder / 'made'}")),  # noqa: S605 - an escape
    "os.popen": here(lambda p: os.popen(f"touch {p.folder / 'made'}").close()),  # noqa: S605 - an escape
    "os.posix_spawn": here(lambda p: os.posix_spawn("/bin/touch", ["touch", str(p.folder / "made")], {})),
    "os.execv": here(lambda _: os.execv("/bin/true", ["true"])),  # noqa: S606 - an escape
    "os.fork": here(fork),
    "a pool of processes": here(pool_of_processes),
    "a signal": here(lambda _: os.kill(os.getpid(), signal.SIGCONT)),
    "a thread": here(lambda _: threading.Thread(target=int).start()),
    "a timer": here(lambda _: threading.Timer(0, int).start()),
    "a pool of threads": here(pool_of_threads),
    "open": here(lambda p: (p.folder / "made").open("w").close()),
    "open for more": here(lambda p: p.file.open("a").close()),
    "os.open": here(open_by_number),
    "pathlib": here(lambda p: p.file.write_text("changed")),
    "tempfile": here(lambda _: tempfile.NamedTemporaryFile().close()),
    "a temporary folder": here(lambda p: tempfile.mkdtemp(dir=p.folder)),
    "remove": here(lambda p: p.file.unlink()),
    "rename": here(lambda p: p.file.rename(p.folder / "made")),
    "copy": here(lambda p: shutil.copy(p.file, p.folder / "made")),
    "rmtree": here(lambda p: shutil.rmtree(p.folder)),
    "mkdir": here(lambda p: (p.folder / "made").mkdir()),
    "symlink": here(lambda p: (p.folder / "made").symlink_to(p.file)),
    "hard link": here(lambda p: (p.folder / "made").hardlink_to(p.file)),
    "truncate": here(lambda p: os.truncate(p.file, 0)),
    "chmod": here(lambda p: p.file.chmod(0o600)),
    "utime": here(lambda p: os.utime(p.file, (0, 0))),
    "a log file": here(log_to_a_file),
    "a shelf": here(keep_on_a_shelf),
    "sqlite3": here(change_the_file_of_a_database),
    "ctypes": here(lambda _: ctypes.CDLL(None).getpid()),
    "the environment": here(lambda _: os.environ.setdefault("COUNTERSIGN_ESCAPED", "1")),
    "the working directory": here(lambda p: os.chdir(p.folder)),
    "a fresh context": here(leave_the_context),
    "a refusal that is swallowed": swallow,
}
