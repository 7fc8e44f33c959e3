"""Takes away what is over, a little with each new row, so that no table grows without end by what strangers do."""

from datetime import timedelta
from typing import Any

from sqlalchemy import Column, Connection, delete, select

KEPT = timedelta(days=1)  # after its end; as long as the longest window in which tries are counted
AT_A_TIME = 200


def purge(connection: Connection, key: Column[Any], moment: Column[Any], before: int) -> None:
    """Delete at most 200 rows of a table whose `moment` (microseconds) is before `before`; `key` is its primary key."""
    # Two that purge at once take different rows, so that neither waits for the other.
    over = select(key).where(moment < before).limit(AT_A_TIME).with_for_update(skip_locked=True)
    connection.execute(delete(key.table).where(key.in_(over)))
