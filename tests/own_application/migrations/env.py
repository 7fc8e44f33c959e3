# migrations/env.py
import os

from alembic import context
from sqlalchemy import create_engine

from bakery.tables import Base


def include_name(name: str | None, kind: str, _parents: object) -> bool:
    """Leave out Countersign's tables: they are in the same database and none of ours."""
    return kind != "table" or not (name or "").startswith("cs_")


engine = create_engine(os.environ["COUNTERSIGN_DATABASE_URL"])
with engine.connect() as connection:
    context.configure(connection=connection, target_metadata=Base.metadata, include_name=include_name)
    with context.begin_transaction():
        context.run_migrations()
