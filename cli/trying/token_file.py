"""What a sign-in gave, in a private file of its own for each server."""

import hashlib
import os
import re
import stat
from pathlib import Path

from mcp.shared.auth import OAuthClientInformationFull, OAuthMetadata, OAuthToken
from pydantic import BaseModel, ValidationError

from cli.instance import write_private
from cli.refusals import InstanceUnwritable
from cli.trying.addresses import host_of
from cli.trying.refusals import TokenFileUnusable

LARGEST = 256 * 1024


class Kept(BaseModel):
    """Everything that the next command needs to go on without the browser, and `sign-out` to end it."""

    address: str
    client: OAuthClientInformationFull | None = None
    tokens: OAuthToken | None = None
    expires_at: float | None = None
    server: OAuthMetadata | None = None  # who signed in: refreshing and revoking go there, never to a guess


class TokenFile:
    """The file of one server's address, below the person's state folder."""

    def __init__(self, address: str, folder: Path | None = None) -> None:
        digest = hashlib.sha256(address.encode()).hexdigest()[:16]
        host = re.sub(r"[^a-z0-9.-]", "_", host_of(address).lower())[:80]
        self.address = address
        self.path = (folder or state_folder()) / f"{host}-{digest}.json"

    def read(self) -> Kept:
        """Give what is kept, an empty one where there is no file; raise TokenFileUnusable."""
        try:
            handle = os.open(self.path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except (FileNotFoundError, NotADirectoryError):
            return Kept(address=self.address)
        except OSError as error:
            raise self._unusable(f"can't be read: {error.strerror}") from None
        try:
            self._require_private(os.fstat(handle))
            return self._parsed(os.read(handle, LARGEST + 1))
        finally:
            os.close(handle)

    def write(self, kept: Kept) -> None:
        """Replace the file, whole or not at all; raise TokenFileUnusable."""
        try:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            write_private(self.path, kept.model_dump_json(exclude_none=True))
        except OSError as error:
            raise self._unusable(f"can't be written: {error.strerror}") from None
        except InstanceUnwritable as error:
            raise TokenFileUnusable(error.public) from None

    def remove(self) -> bool:
        """Delete the file, whatever is in it; tell whether there was one."""
        try:
            self.path.unlink()
        except (FileNotFoundError, NotADirectoryError):
            return False
        except OSError as error:
            raise self._unusable(f"can't be removed: {error.strerror}") from None
        return True

    def _require_private(self, status: os.stat_result) -> None:
        if not stat.S_ISREG(status.st_mode) or status.st_uid != os.geteuid() or status.st_mode & 0o077:
            raise self._unusable("isn't private: others may have read or changed it")

    def _parsed(self, text: bytes) -> Kept:
        try:
            kept = Kept.model_validate_json(text) if len(text) <= LARGEST else None
        except ValidationError:
            kept = None
        if kept is None or kept.address != self.address:
            raise self._unusable("is damaged, or belongs to another server")
        return kept

    def _unusable(self, why: str) -> TokenFileUnusable:
        return TokenFileUnusable(f"{self.path} {why}. `countersign try sign-out` removes it; then sign in again.")


def state_folder() -> Path:
    """Give the folder for this: `$XDG_STATE_HOME/countersign/try`, or below `~/.local/state`."""
    given = os.environ.get("XDG_STATE_HOME", "")
    # XDG Base Directory: a path that isn't absolute is ignored.
    return (Path(given) if given.startswith("/") else Path.home() / ".local" / "state") / "countersign" / "try"
