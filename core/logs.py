"""Log lines: one JSON object each, with the request's reference and never a secret."""

import logging
import os
import re
import sys
from contextvars import ContextVar
from datetime import UTC, datetime

import orjson

reference: ContextVar[str | None] = ContextVar("reference", default=None)

# Whatever looks like one of our secrets, and whatever stands behind a name that OAuth gives to one.
SECRETS = re.compile(
    r"cs_(?:at|rt|ct|ac|cs|ss)_[\w-]+"
    r"|(?<=earer )[\w.~+/=-]+"
    r"|(?i:(?<=code_verifier=)|(?<=refresh_token=)|(?<=client_secret=)|(?<=access_token=)|(?<=password=)|(?<=code=))[^&\s'\"]+"
)


def mask(text: str) -> str:
    """Give `text` with every secret replaced by `[secret]`."""
    return SECRETS.sub("[secret]", text)


class JsonLines(logging.Formatter):
    """Writes a record as one line of JSON, masked."""

    def format(self, record: logging.LogRecord) -> str:
        """Give the line."""
        line = {
            "at": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "pid": os.getpid(),
            "reference": reference.get(),
            "message": mask(record.getMessage()),
        }
        if record.exc_info:
            line["traceback"] = mask(self.formatException(record.exc_info))
        return orjson.dumps(line).decode()


def configure_logs() -> None:
    """Send everything at INFO and above to standard error as JSON lines; safe to call twice.

    Authlib writes whole tokens at DEBUG, so its logger is silenced (design D2).
    """
    root = logging.getLogger()
    if not any(isinstance(handler.formatter, JsonLines) for handler in root.handlers):
        handler = logging.StreamHandler(sys.stderr)
        handler.setFormatter(JsonLines())
        root.addHandler(handler)
    root.setLevel(logging.INFO)
    authlib = logging.getLogger("authlib")
    authlib.setLevel(logging.CRITICAL)
    authlib.propagate = False
