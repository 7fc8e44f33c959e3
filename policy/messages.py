"""What a person may do about the messages of a run."""

from core.db import Database
from core.errors import Conflict, Forbidden
from flows.caller import Caller, Role
from flows.outbox import Outbox
from flows.trace import Traces
from policy.audit import Audit


class NotFailed(Conflict):
    """The message is on its way, or has arrived."""

    code = "message_not_failed"
    public = "This message has not failed: it is waiting or was sent. Nothing was changed."
    remedy = "Open the run again: it shows how its messages stand."


class Messages:
    """Sends again what could not be delivered."""

    def __init__(self, database: Database, outbox: Outbox, traces: Traces, audit: Audit) -> None:
        self._database = database
        self._outbox = outbox
        self._traces = traces
        self._audit = audit

    def send_again(self, caller: Caller, run_id: str, message_id: str) -> None:
        """Let a failed message of the caller's own run leave again; an administrator may for everybody's.

        What leaves is what was confirmed, so it needs no new confirmation. Raises NotFound, Forbidden or NotFailed.
        """
        run = self._traces.get(run_id, caller)
        if not may_send_again(caller, run.operator_id):
            raise Forbidden("Only the person whose run it was, or an administrator, sends a message again.")
        row = self._audit.row("message.sent_again", caller=caller, flow_id=run.flow_id, run_id=run_id)
        with self._database.write() as connection:
            if not self._outbox.send_again(connection, run_id, message_id):
                raise NotFailed
            self._audit.write(connection, row)
        self._outbox.wake()


def may_send_again(caller: Caller, operator_id: str) -> bool:
    """Tell whether the caller may send messages of this operator's runs again."""
    return caller.operator_id == operator_id or caller.role is Role.ADMIN
