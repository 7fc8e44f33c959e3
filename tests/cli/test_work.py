"""`countersign work`: messages leave without a web process."""

import contextlib
import signal
import sqlite3
import subprocess

import orjson
import pytest

from tests.support.process import guarded, stop
from tests.support.server import CLI, REPO
from tests.support.waiting import wait_until


@pytest.fixture
def instance(new_instance):
    return new_instance()


def leave_a_message(instance, number, **changes):
    """Put a message into the outbox, as a committed run does."""
    message_id = f"msg_{number:032x}"
    content = {"to": "ada@example.test", "subject": f"Number {number}", "text": "hello"}
    payload = orjson.dumps(content | changes).decode()
    with contextlib.closing(sqlite3.connect(instance.folder / "countersign.db")) as database:
        database.execute(
            "INSERT INTO cs_outbox (id, run_id, target, payload, status, attempts, due_at, created_at) "
            "VALUES (?, 'run_1', 'email', ?, 'waiting', 0, 1, 1)",
            (message_id, payload),
        )
        database.commit()
    return message_id


def delivered(instance):
    return {path.stem.partition("-")[2] for path in (instance.folder / "outbox").glob("*.eml")}


def test_work_once_delivers_what_is_due_and_ends(instance):
    wanted = {leave_a_message(instance, number) for number in range(25)}  # more than one round takes

    done = instance.run("work", "--once")

    assert done.stdout == "25 messages delivered, 0 overdue runs and confirmations ended.\n"
    assert delivered(instance) == wanted
    assert instance.run("work", "--once").stdout.startswith("0 messages")


def test_a_round_of_failures_does_not_end_the_work(instance):
    for number in range(20):  # all that one round takes
        leave_a_message(instance, number, to="two\nlines")
    wanted = leave_a_message(instance, 20)

    done = instance.run("work", "--once")

    assert done.stdout.startswith("1 messages delivered")
    assert delivered(instance) == {wanted}


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_work_delivers_until_it_is_told_to_end(instance, number):
    process = subprocess.Popen(
        guarded([*CLI, "work"]), cwd=REPO, env=instance.environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    try:
        message_id = leave_a_message(instance, 1)
        wait_until("the message", lambda: message_id in delivered(instance))
    finally:
        status = stop(process, first=number)
    out, err = process.communicate()

    assert (status, err) == (0, b"")
    assert out.decode().startswith("Working;")
