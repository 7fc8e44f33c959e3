"""`countersign work`: deliver what waits in the outbox and end what nobody ended, with or without web workers."""

import signal
import threading
from types import FrameType

import click

from cli.parts import Build, Parts


def command(build: Build) -> click.Command:
    """Give the command `work`."""

    @click.command("work")
    @click.option("--once", is_flag=True, help="Do what is due now, then end.")
    def work(once: bool) -> None:
        """Deliver messages and end overdue runs until SIGTERM or Ctrl-C.

        Every web worker does the same after its first request; a process of its own keeps messages leaving where
        requests are rare. Several may run at once: each message is claimed by one of them.
        """
        parts = build()
        if once:
            click.echo(work_once(parts))
        else:
            work_until_stopped(parts)

    return work


def work_once(parts: Parts) -> str:
    """Do what is due; give the words to print."""
    delivered = 0
    while parts.outbox.has_due():
        delivered += parts.outbox.deliver_due()
    return f"{delivered} messages delivered, {parts.door.end_overdue()} overdue runs and confirmations ended."


def work_until_stopped(parts: Parts) -> None:
    """Work until the process is told to end; what is due is delivered first."""
    stopped = threading.Event()

    def stop(_number: int, _frame: FrameType | None) -> None:
        stopped.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)
    parts.outbox.start(parts.door.end_overdue)
    click.echo("Working; Ctrl-C or SIGTERM ends it.")
    stopped.wait()
    parts.outbox.close()
