"""The folder of this installation: key, database, mails, the first password."""

import os
import tempfile
from pathlib import Path

from cli.refusals import InstanceUnwritable


def prepare_folder(folder: Path) -> None:
    """Make `folder` (mode 0700) when it is missing; raise InstanceUnwritable unless a file can be made in it."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise InstanceUnwritable(f"The folder {folder} can't be written: {error.strerror}.") from None


def write_private(path: Path, text: str) -> None:
    """Replace `path` by a file of mode 0600 with `text`, whole or not at all; raise InstanceUnwritable."""
    draft = path.with_name(f".{path.name}-{os.getpid()}")
    try:
        handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            os.fchmod(file.fileno(), 0o600)
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
    except OSError as error:
        raise InstanceUnwritable(f"{path} can't be written: {error.strerror}.") from None
