"""Everything that a server has kept, as one text to search in."""

from pathlib import Path

import sqlalchemy as sa


def dump_database(url: str) -> str:
    """Return every row of every table as text."""
    engine = sa.create_engine(url, poolclass=sa.NullPool)
    try:
        with engine.connect() as connection:
            tables = sa.inspect(connection).get_table_names()
            rows = (
                f"{table}: {dict(row)!r}"
                for table in tables
                for row in connection.execute(sa.text(f'SELECT * FROM "{table}"')).mappings()  # noqa: S608 - names of the inspector
            )
            return "\n".join(rows)
    finally:
        engine.dispose()


def files_with(folder: Path, secret: str) -> list[str]:
    """Return the names of the files under `folder` whose bytes contain `secret`."""
    wanted = secret.encode()
    return [
        str(path.relative_to(folder))
        for path in sorted(folder.rglob("*"))
        if path.is_file() and wanted in path.read_bytes()
    ]
