"""Mail leaves through one of two doors: a dated file in development, SMTP by setting."""

import os
import smtplib
import ssl
from dataclasses import dataclass
from email.message import EmailMessage
from pathlib import Path
from typing import Protocol
from urllib.parse import unquote, urlsplit

from core.clock import Clock

SMTP_SECONDS = 20


@dataclass(frozen=True, slots=True)
class Mail:
    """One message to one person, plain text."""

    message_id: str
    to: str
    subject: str
    text: str


class Mailer(Protocol):
    """Delivers a mail or raises OSError (smtplib's errors are OSErrors)."""

    def deliver(self, mail: Mail) -> None:
        """Hand the mail over."""


class FileMailer:
    """Writes each mail into a dated file of its own, for development and tests."""

    def __init__(self, folder: Path, sender: str, clock: Clock) -> None:
        self._folder = folder
        self._sender = sender
        self._clock = clock

    def deliver(self, mail: Mail) -> None:
        """Write `<UTC time>-<message id>.eml`; a second delivery of the same message replaces the first."""
        content = bytes(as_message(mail, self._sender))  # first: what can't be one leaves no empty file
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        name = f"{self._clock.now():%Y%m%dT%H%M%S}-{mail.message_id}.eml"
        handle = os.open(self._folder / name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(handle, "wb") as file:
            file.write(content)


class SmtpMailer:
    """Hands mails to an SMTP server; `smtps://` is TLS from the start, `smtp://` is STARTTLS unless on loopback."""

    def __init__(self, url: str, sender: str) -> None:
        self._url = urlsplit(url)
        self._sender = sender

    def deliver(self, mail: Mail) -> None:
        """Deliver one mail, connecting anew; raise OSError when the server doesn't take it."""
        with self._connect() as server:
            if self._url.username:
                server.login(unquote(self._url.username), unquote(self._url.password or ""))
            server.send_message(as_message(mail, self._sender))

    def _connect(self) -> smtplib.SMTP:
        host, port = self._url.hostname or "localhost", self._url.port or 0
        context = ssl.create_default_context()
        if self._url.scheme == "smtps":
            return smtplib.SMTP_SSL(host, port, timeout=SMTP_SECONDS, context=context)
        server = smtplib.SMTP(host, port, timeout=SMTP_SECONDS)
        if host not in ("localhost", "127.0.0.1", "::1"):
            server.starttls(context=context)
        return server


def as_message(mail: Mail, sender: str) -> EmailMessage:
    """Build the message; EmailMessage refuses line breaks in headers."""
    message = EmailMessage()
    message["From"] = sender
    message["To"] = mail.to
    message["Subject"] = mail.subject
    message["Message-ID"] = f"<{mail.message_id}@countersign>"
    message.set_content(mail.text)
    return message
