"""The key file: one key a line, the current one first, each with a remark that says since when."""

import fcntl
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path

from cli.instance import prepare_folder, write_private
from cli.refusals import InstanceUnwritable
from core.ids import Chance, urlsafe
from core.settings import SECRET_FILE

KEY_BYTES = 32
COMING = "coming"
SINCE = "since "


@dataclass(frozen=True, slots=True)
class Key:
    """One key; a coming one is accepted and not used yet, `since` is the day from which one was used."""

    text: str
    since: date | None = None
    is_coming: bool = False

    def __repr__(self) -> str:
        return f"Key(since={self.since}, is_coming={self.is_coming})"


def create_key(folder: Path, chance: Chance) -> Path:
    """Write a fresh key into `folder`, whole or not at all; one that another process has just made stays."""
    path, draft = folder / SECRET_FILE, folder / f".{SECRET_FILE}-{os.getpid()}"
    write_private(draft, new_key(chance) + "\n")
    try:
        path.hardlink_to(draft)
    except FileExistsError:
        pass
    except OSError as error:
        raise InstanceUnwritable(f"{path} can't be written: {error.strerror}.") from None
    finally:
        draft.unlink()
    return path


def new_key(chance: Chance) -> str:
    """Give a key that nobody can guess."""
    return urlsafe(chance.bytes(KEY_BYTES))


@contextmanager
def only_one(folder: Path) -> Iterator[None]:
    """Let one process after the other change the key file."""
    prepare_folder(folder)
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def read_keys(path: Path) -> list[Key]:
    """Give the keys of a file that the settings could read; none when it isn't there."""
    if not path.exists():
        return []
    return [key for line in path.read_text("ascii").splitlines() for key in _keys_of(line)]


def write_keys(path: Path, keys: Sequence[Key]) -> None:
    """Replace the file by these keys, whole or not at all."""
    write_private(path, "".join(f"{key.text}{_remark(key)}\n" for key in keys))


def put_in_front(keys: Sequence[Key], today: date, kept: timedelta) -> list[Key]:
    """Give `keys` with the coming one as the current one, without those that were replaced longer than `kept` ago."""
    (coming,) = [key for key in keys if key.is_coming]
    ordered = [Key(coming.text, since=today), *(key for key in keys if not key.is_coming)]
    # A key was replaced on the day from which the one before it was used; of a day that nobody noted it is kept.
    days = [key.since or today for key in ordered]
    replaced = {key.text: day for key, day in zip(ordered[1:], days, strict=False)}
    return [key for key in ordered if today - replaced.get(key.text, today) <= kept]


def _keys_of(line: str) -> Iterator[Key]:
    texts, _, remark = line.partition("#")
    remark = remark.strip()
    since = _day(remark.removeprefix(SINCE)) if remark.startswith(SINCE) else None
    for text in texts.replace(",", " ").split():
        yield Key(text, since, remark == COMING)


def _day(text: str) -> date | None:
    try:
        return date.fromisoformat(text)
    except ValueError:  # a remark of somebody else's
        return None


def _remark(key: Key) -> str:
    if key.is_coming:
        return f"  # {COMING}"
    return f"  # {SINCE}{key.since}" if key.since else ""
