"""How a command says no: one line on standard error with a stable code, exit status 1, never a traceback."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, Any

import click
from sqlalchemy.exc import DBAPIError

from core.errors import AppError


class PortBusy(AppError):
    """Somebody listens where we were to listen."""

    code = "port_busy"
    remedy = "End the program that uses the port, or set COUNTERSIGN_PORT to another."


class NotReady(AppError):
    """Something stops the start in production; each thing is listed above this refusal, with what helps."""

    code = "not_ready"
    remedy = "Do what stands behind the arrow of each fault, then start again."


class ServerUnconfigured(AppError):
    """gunicorn was started without Countersign's configuration, so its limits and its workers aren't ours."""

    code = "server_unconfigured"
    remedy = "Start `countersign serve`, or give gunicorn a gunicorn.conf.py such as that of the checkout."
    public = (
        "gunicorn doesn't have Countersign's configuration. Start `countersign serve --production`, or put into "
        "./gunicorn.conf.py: from cli.served import configuration; globals().update(configuration())"
    )


class InstanceUnwritable(AppError):
    """The folder for keys, database and mails can't be used."""

    code = "instance_unwritable"
    remedy = "Give the server's user the folder, or set COUNTERSIGN_INSTANCE to another."


class KeysElsewhere(AppError):
    """The keys are in COUNTERSIGN_SECRET_KEYS, so the key file isn't what the server reads."""

    code = "keys_in_environment"
    public = (
        "The keys are in COUNTERSIGN_SECRET_KEYS, not in the key file. To rotate them, append a new key (old,new) and "
        "restart every process; then put it in front (new,old) and restart again."
    )
    remedy = "Change the variable in two steps, with a restart after each."


class RotationBegun(AppError):
    """A new key is waiting already to become the current one."""

    code = "rotation_begun"
    public = "A rotation has begun. Reload the server, then run `countersign secrets rotate --finish`."
    remedy = "Reload the server, then finish the rotation."


class NoRotation(AppError):
    """There is no new key that could become the current one."""

    code = "no_rotation"
    public = "No rotation has begun. Run `countersign secrets rotate`, reload the server, then --finish."
    remedy = "Begin with `countersign secrets rotate`."


class NoSuchName(AppError):
    """A name given on the command line that nobody and nothing has."""

    code = "not_found"
    status = 404
    remedy = "Look at the list: `countersign operator list`, `countersign client list`."


class Refused(click.ClickException):
    """A refusal in the words of this surface."""

    exit_code = 1

    def __init__(self, code: str, sentence: str) -> None:
        super().__init__(f"{code}: {sentence}")

    def show(self, file: IO[Any] | None = None) -> None:
        """Write the one line."""
        click.echo(f"countersign: {self.message}", file=file or sys.stderr)


@contextmanager
def told_in_one_line() -> Iterator[None]:
    """Translate what the product raises; anything else is a defect of ours and keeps its traceback."""
    try:
        yield
    except AppError as error:
        raise Refused(error.code, error.public) from None
    except DBAPIError as error:
        raise Refused("database_unavailable", f"The database can't be used: {first_line(error)}") from None


def first_line(error: DBAPIError) -> str:
    """Give what the database said, without the pages that follow."""
    lines = str(error.orig).strip().splitlines()
    return lines[0] if lines else type(error.orig).__name__
