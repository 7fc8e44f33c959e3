"""Renders the console's pages for the person who is signed in."""

from dataclasses import dataclass
from typing import Any

from flask import Response, render_template

from auth.sessions import Sessions
from core.clock import Clock
from core.errors import AppError, TooMany
from web import words


@dataclass(frozen=True, slots=True)
class Pages:
    """What every page is rendered with: the reader, the time, and the words of the house."""

    sessions: Sessions
    clock: Clock

    def page(self, template: str, *, nav: str, status: int = 200, **context: Any) -> Response:
        """Give the page of `template`, with `nav` as the section that the bar marks."""
        html = render_template(
            template, signed_in=self.sessions.current(), nav=nav, words=words, now=self.clock.now(), **context
        )
        return Response(html, status=status, mimetype="text/html")

    def refused(self, error: AppError, page: Response) -> Response:
        """Give `page`, which words `error`, with what a program should know of it."""
        if isinstance(error, TooMany):
            page.headers["Retry-After"] = str(error.retry_after)
        return page

    def error_page(self, status: int, code: str, message: str, reference: str) -> str:
        """Give the page of a refusal; of a failure without the person, whom a broken database can't name."""
        signed_in = self.sessions.current() if status < 500 else None
        heading = {404: "There is nothing here", 403: "You can’t do this", 429: "Too many tries"}.get(status)
        return render_template(
            "error.html",
            signed_in=signed_in,
            heading=heading or ("Something went wrong" if status >= 500 else None),
            code=code,
            message=message,
            reference=reference,
        )
