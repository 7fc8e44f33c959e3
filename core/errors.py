"""What can be refused, in one tree. An error never commits; a translator per surface words it.

AppError
├── SettingsError        settings_invalid     the process can't start as configured
├── BadRequest           bad_request          the caller sent something that can't be read
│   ├── TooLarge         too_large
│   └── InvalidCursor    invalid_cursor
├── NotFound             not_found            unknown, or another person's: never told apart
├── NotSignedIn          not_signed_in
├── Forbidden            forbidden
│   ├── CsrfFailed       csrf_failed
│   └── ProofFailed      proof_failed
├── Conflict             conflict             the same thing was changed at the same moment
├── TooMany              too_many             a limit was reached; `retry_after` says when to come back
└── Unavailable          unavailable          this process can't answer now
"""

from typing import ClassVar


class AppError(Exception):
    """A refusal with a stable `code`, an HTTP `status`, a `public` sentence and a `detail` for the log alone.

    docs/errors.md is made from these classes: a code's meaning is its docstring's first sentence, `remedy` what to do.
    """

    code: ClassVar[str] = "internal"
    status: ClassVar[int] = 500
    remedy: ClassVar[str] = ""
    public: str = "Something went wrong here. The reference finds it in the log."

    def __init__(self, public: str | None = None, *, detail: str = "") -> None:
        super().__init__(detail or public or self.public)
        if public is not None:
            self.public = public
        self.detail = detail


class SettingsError(AppError):
    """The settings can't work; the sentence names every gap at once (design D10)."""

    code = "settings_invalid"
    status = 500
    public = "The settings can't work."
    remedy = "Correct the variables that the sentence names, in the environment or in .env, and start again."


class BadRequest(AppError):
    """The request can't be read."""

    code = "bad_request"
    status = 400
    public = "The request can't be read."
    remedy = "Send the request again in the form that the sentence asks for."


class TooLarge(BadRequest):
    """The body is over the limit."""

    code = "too_large"
    status = 413
    public = "The request is too large."
    remedy = "Send less at a time."


class InvalidCursor(BadRequest):
    """A list cursor that we didn't make, or made for somebody else."""

    code = "invalid_cursor"
    public = "The cursor is not valid. Start again without one."
    remedy = "Ask for the first page again, without a cursor."


class NotFound(AppError):
    """Nothing by that name that this person may see."""

    code = "not_found"
    status = 404
    public = "There is nothing here by that name."
    remedy = "Look at the list that it came from; what another person owns is not shown."


class NotSignedIn(AppError):
    """A page that needs a browser session was asked for without one."""

    code = "not_signed_in"
    status = 401
    public = "Sign in first."
    remedy = "Sign in and open the page again."


class Forbidden(AppError):
    """The signed-in person may not do this."""

    code = "forbidden"
    status = 403
    public = "You can't do this here."
    remedy = "Ask somebody whose role may do it."


class CsrfFailed(Forbidden):
    """A form came without the token of this session."""

    code = "csrf_failed"
    public = "This form is from another session. Open the page again and repeat."
    remedy = "Open the page again and send the form once more."


class ProofFailed(Forbidden):
    """The proof beside a decision is missing or wrong (design D4)."""

    code = "proof_failed"
    public = "The password is not right. Nothing was changed."
    remedy = "Type your password again."


class Conflict(AppError):
    """Two changes met; nothing of this one was kept."""

    code = "conflict"
    status = 409
    public = "Something else changed this at the same moment. Try again."
    remedy = "Look at how it stands now, then try again."


class TooMany(AppError):
    """A limit was reached."""

    code = "too_many"
    status = 429
    public = "Too many tries. Wait a little."
    remedy = "Wait for as long as Retry-After says, then try again."

    def __init__(self, public: str | None = None, *, retry_after: int, detail: str = "") -> None:
        super().__init__(public, detail=detail)
        self.retry_after = retry_after


class Unavailable(AppError):
    """This process can't answer now: busy database, no place left."""

    code = "unavailable"
    status = 503
    public = "The server is busy. Try again in a moment."
    remedy = "Try again in a moment; if it stays so, look at /readyz and at the log."
