"""What Alembic runs for each command: on the connection that `migrations.revisions` hands over, and on no other."""

from alembic import context

from core.db import db

VERSION_TABLE = "cs_alembic_version"  # our own, so that we can live in the application's database (design D7)

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=db.metadata,
    include_name=lambda name, kind, _parents: kind != "table" or name in db.metadata.tables,  # others' tables stay
    version_table=VERSION_TABLE,
    transactional_ddl=True,  # SQLite too: our connection has begun its transaction before the first statement
)
with context.begin_transaction():
    context.run_migrations()
