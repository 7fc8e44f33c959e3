"""What happened, one row each, written in the transaction that it describes."""

from collections.abc import Mapping
from typing import Any

import orjson
from sqlalchemy import Connection, insert

from core.clock import Clock, to_us
from core.ids import Ids
from core.logs import reference
from flows.caller import Caller, Surface
from policy.models import audit

COLUMNS = tuple(column.name for column in audit.columns)
INSERT = insert(audit)


class Audit:
    """Makes and writes audit rows; a detail holds ids, counts and codes, never a value or a secret."""

    def __init__(self, ids: Ids, clock: Clock) -> None:
        self._ids = ids
        self._clock = clock

    def row(self, event: str, *, caller: Caller | None = None, **fields: Any) -> dict[str, Any]:
        """Give the whole row of `event`; `fields` are columns, `detail` a mapping. Without a caller: the console's."""
        row: dict[str, Any] = dict.fromkeys(COLUMNS)
        row.update(id=self._ids.new("au"), at=to_us(self._clock.now()), event=event, reference=reference.get())
        row.update(surface=Surface.CONSOLE.value)
        if caller is not None:
            row.update(surface=caller.surface.value, operator_id=caller.operator_id)
            row.update(client_id=caller.client_id, grant_id=caller.grant_id)
        detail: Mapping[str, Any] | None = fields.pop("detail", None)
        unknown = fields.keys() - row.keys()
        if unknown:
            raise TypeError(f"no such column: {', '.join(sorted(unknown))}")
        row.update(fields, detail=orjson.dumps(detail).decode() if detail else None)
        return row

    def write(self, connection: Connection, row: Mapping[str, Any]) -> None:
        """Write a row in the caller's transaction."""
        connection.execute(INSERT, dict(row))
