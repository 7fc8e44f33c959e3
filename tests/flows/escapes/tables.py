"""What the escapes start from: tables, a view, a trigger and a function of which their flow declares only a part."""

import socket
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from sqlalchemy import Column, ForeignKey, Integer, MetaData, String, Table, insert, select, text
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column, relationship

from core.db import Database


class Base(DeclarativeBase):
    """The tables of the escapes."""


class Ledger(Base):
    """Declared as written."""

    __tablename__ = "esc_ledger"
    id: Mapped[int] = mapped_column(primary_key=True)
    value: Mapped[int]
    owner_id: Mapped[int] = mapped_column(ForeignKey("esc_owner.id"))
    owner: Mapped["Owner"] = relationship()


class Owner(Base):
    """Not declared."""

    __tablename__ = "esc_owner"
    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str]


class Parent(Base):
    """Declared as written and deleted; its children are not."""

    __tablename__ = "esc_parent"
    id: Mapped[int] = mapped_column(primary_key=True)
    noted: Mapped[int] = mapped_column(default=0)


class Child(Base):
    """Not declared: goes with its parent."""

    __tablename__ = "esc_child"
    id: Mapped[int] = mapped_column(primary_key=True)
    parent_id: Mapped[int] = mapped_column(ForeignKey(Parent.id, ondelete="CASCADE", onupdate="CASCADE"))


class Watched(Base):
    """Declared as written; the database notes each change of it elsewhere."""

    __tablename__ = "esc_watched"
    id: Mapped[int] = mapped_column(primary_key=True)
    value: Mapped[int]


class Note(Base):
    """Not declared: the trigger's."""

    __tablename__ = "esc_note"
    id: Mapped[int] = mapped_column(primary_key=True)


# To SQLAlchemy a view is a table. Declared as read.
VIEW = Table("esc_view", MetaData(), Column("id", Integer), Column("name", String))
STRUCTURES: Mapping[str, tuple[str, ...]] = {
    "sqlite": (
        "CREATE VIEW esc_view AS SELECT id, name FROM esc_owner",
        "CREATE TRIGGER esc_noting AFTER UPDATE ON esc_watched BEGIN INSERT INTO esc_note (id) VALUES (NULL); END",
    ),
    "postgresql": (
        "CREATE VIEW esc_view AS SELECT id, name FROM esc_owner",
        """CREATE FUNCTION esc_note_it() RETURNS trigger LANGUAGE plpgsql AS
           $$ BEGIN INSERT INTO esc_note DEFAULT VALUES; RETURN NEW; END $$""",
        "CREATE TRIGGER esc_noting AFTER UPDATE ON esc_watched FOR EACH ROW EXECUTE FUNCTION esc_note_it()",
        """CREATE FUNCTION esc_rename() RETURNS integer LANGUAGE sql AS
           $$ UPDATE esc_owner SET name = 'gone' RETURNING id $$""",
    ),
}


@dataclass(frozen=True)
class Place:
    """Where an escape runs: a database, a folder with one file in it, and a socket on which somebody listens.

    `opened` and `connected` were so before the flow ran; what is sent through `connected` arrives at `peer`.
    """

    database: Database
    folder: Path
    listener: socket.socket
    opened: IO[str]
    connected: socket.socket
    peer: socket.socket

    @property
    def file(self) -> Path:
        return self.folder / "kept.txt"

    @property
    def port(self) -> int:
        return int(self.listener.getsockname()[1])

    def outside(self) -> dict[str, object]:
        """Give everything in the folder, and who came and what arrived since it was asked."""
        files: dict[str, object] = {
            path.name: path.read_bytes() if path.is_file() else None for path in self.folder.iterdir()
        }
        return files | {"came": len(list(self._came())), "arrived": list(self._arrived())}

    def _came(self) -> Iterator[socket.socket]:
        with suppress(BlockingIOError):
            while True:
                connection, _ = self.listener.accept()
                connection.close()
                yield connection

    def _arrived(self) -> Iterator[bytes]:
        with suppress(BlockingIOError):
            yield self.peer.recv(100)


def create_escape_tables(database: Database) -> None:
    """Make tables and structures, with one row where something can be lost."""
    Base.metadata.create_all(database.writing)
    with database.write() as connection:
        for statement in STRUCTURES[database.writing.dialect.name]:
            connection.execute(text(statement))
        connection.execute(insert(Owner), {"id": 1, "name": "Ada"})
        connection.execute(insert(Ledger), {"id": 1, "value": 0, "owner_id": 1})
        connection.execute(insert(Parent), {"id": 1})
        connection.execute(insert(Child), {"id": 1, "parent_id": 1})
        connection.execute(insert(Watched), {"id": 1, "value": 0})


def rows(database: Database) -> dict[str, list[tuple[object, ...]]]:
    """Give every row of the tables."""
    with database.read() as connection:
        return {
            name: [tuple(row) for row in connection.execute(select(table).order_by(table.c.id))]
            for name, table in Base.metadata.tables.items()
        }
