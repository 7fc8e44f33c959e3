"""Browser sessions: a 256-bit id in a cookie, its digest and everything else on the server."""

import hmac
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import wraps
from typing import Any, ParamSpec
from urllib.parse import quote

from flask import Response, current_app, g, request
from flask.typing import ResponseReturnValue
from sqlalchemy import Connection, bindparam, delete, insert, select, update

from auth.models import PERSON, operator, session
from auth.operators import Operator, lock_living
from auth.purge import sessions
from core.clock import Clock, from_us, to_us
from core.db import Database
from core.errors import BadRequest, CsrfFailed, NotSignedIn
from core.http import from_own_page
from core.ids import Ids, digest_of
from core.purge import take_some
from core.seal import BadSeal, Sealer
from core.settings import Settings
from flows.caller import Caller, Role, Surface
from policy.approval import Approver
from policy.principal import Principal
from policy.scopes import Scopes

P = ParamSpec("P")
View = Callable[P, ResponseReturnValue]

SHAPE = re.compile(r"cs_ss_[\w-]{43}", re.ASCII)
TOUCH = timedelta(minutes=5)  # how exact `seen_at` is; a page view is no write
RETURN_LIFE = timedelta(days=1)
LONGEST_LOGIN_URL = 7500  # gunicorn.conf.py takes request lines of 8190 bytes
CONSOLE = "console"
LIVING = (
    select(session, operator.c.email, operator.c.role, operator.c.must_change)
    .join(operator, operator.c.id == session.c.operator_id)
    .where(session.c.digest == bindparam("digest"), operator.c.disabled_at.is_(None), operator.c.kind == PERSON)
)


@dataclass(frozen=True, slots=True)
class SignedIn:
    """The person whose browser this is."""

    operator_id: str
    email: str
    role: Role
    csrf: str
    signed_in_at: datetime
    must_change: bool
    digest: str

    def __repr__(self) -> str:
        return f"SignedIn({self.operator_id})"


class Sessions:
    """Opens, finds and ends browser sessions; a bearer token is never looked at here."""

    def __init__(
        self, *, database: Database, ids: Ids, clock: Clock, sealer: Sealer, scopes: Scopes, settings: Settings
    ) -> None:
        self._database = database
        self._ids = ids
        self._clock = clock
        self._sealer = sealer
        self._scopes = scopes
        self._settings = settings
        self._secure = settings.base_url.startswith("https://")
        self.cookie = "__Host-countersign" if self._secure else "countersign"

    # --- who is it ------------------------------------------------------------------------------------------------

    def current(self) -> SignedIn | None:
        """Give the person of this request's session cookie, looked up once a request; None without a living one."""
        if "signed_in" not in g:
            g.signed_in = self._find(request.cookies.get(self.cookie, ""))
        found: SignedIn | None = g.signed_in
        return found

    def get(self) -> SignedIn:
        """Give the signed-in person; raise NotSignedIn."""
        signed_in = self.current()
        if signed_in is None:
            raise NotSignedIn
        return signed_in

    def approver(self, signed_in: SignedIn) -> Approver:
        """Give the person as one who decides."""
        return Approver(signed_in.operator_id, signed_in.email, signed_in.role)

    def principal(self, signed_in: SignedIn) -> Principal:
        """Give the person as one who calls flows from the console: with all that the role may hold."""
        caller = Caller(
            operator_id=signed_in.operator_id,
            email=signed_in.email,
            role=signed_in.role,
            client_id=CONSOLE,
            grant_id=CONSOLE,
            surface=Surface.CONSOLE,
            scopes=self._scopes.of_role(signed_in.role),
        )
        return Principal(caller, client_name="Console", grant_version=0)

    # --- guards of views ------------------------------------------------------------------------------------------

    def required(self, view: View[P]) -> View[P]:
        """Guard `view`: whoever isn't signed in signs in and comes back; a first password is replaced first."""

        @wraps(view)
        def guarded(*args: P.args, **kwargs: P.kwargs) -> ResponseReturnValue:
            signed_in = self.current()
            if signed_in is None:
                return see_other(self.login_url(return_path()))
            if signed_in.must_change:
                return see_other(self.password_url(return_path()))
            return view(*args, **kwargs)

        return guarded

    def csrf_checked(self, view: View[P]) -> View[P]:
        """Guard a POST `view`: the form must carry this session's token (field `csrf`) and come from our pages."""

        @wraps(view)
        def guarded(*args: P.args, **kwargs: P.kwargs) -> ResponseReturnValue:
            self.check_csrf(self.get())
            return view(*args, **kwargs)

        return guarded

    def check_csrf(self, signed_in: SignedIn) -> None:
        """Raise CsrfFailed unless this request's form is of this very session."""
        given = request.form.getlist("csrf")
        if len(given) != 1 or not from_own_page(self._settings):
            raise CsrfFailed
        if not hmac.compare_digest(given[0].encode(), signed_in.csrf.encode()):
            raise CsrfFailed

    # --- the way to the sign-in page and back ---------------------------------------------------------------------

    def login_url(self, path: str) -> str:
        """Give the address of the sign-in page that leads back to `path`; raise BadRequest when that is too long."""
        return self._with_return("/login", path)

    def password_url(self, path: str) -> str:
        """Give the address of the page for a new password that leads on to `path`."""
        return self._with_return("/password", path)

    def opened_return(self, sealed: str) -> str:
        """Give the path that was sealed by us, and `/` for everything else."""
        if not sealed:
            return "/"
        try:
            path = self._sealer.open("return", sealed, within=RETURN_LIFE)
        except BadSeal:
            return "/"
        return path if isinstance(path, str) and is_own_path(path) else "/"

    def _with_return(self, page: str, path: str) -> str:
        if path == "/" or not is_own_path(path):
            return page
        url = f"{page}?return={self._sealer.seal('return', path)}"
        if len(url) > LONGEST_LOGIN_URL:
            raise BadRequest("This address is too long to come back to after signing in.")
        return url

    # --- beginning and end ----------------------------------------------------------------------------------------

    def start(self, response: Response, person: Operator, *, remember: bool) -> None:
        """Open a session of its own id for this browser, ending the one it had; the cookie goes with `response`.

        Raise NotSignedIn when the account was closed or got another password since `person` was read.
        """
        token = self._ids.token("cs_ss")
        now = self._clock.now()
        row = {
            "digest": digest_of(token),
            "operator_id": person.id,
            "csrf": self._ids.token("csrf"),
            "remembered": remember,
            "created_at": to_us(now),
            "signed_in_at": to_us(now),
            "seen_at": to_us(now),
            "expires_at": to_us(now + self._life(remembered=remember)),
        }
        with self._database.write() as connection:
            if lock_living(connection, person.id) != person.stamp:
                raise NotSignedIn
            old = digest_of(request.cookies.get(self.cookie, ""))
            connection.execute(delete(session).where(session.c.digest == old))
            take_some(connection, sessions(now))
            connection.execute(insert(session), row)
        g.pop("signed_in", None)
        life = self._life(remembered=True) if remember else None
        self.set_cookie(response, self.cookie, token, life)

    def end(self, response: Response) -> None:
        """End this browser's session, in the database and in the browser."""
        signed_in = self.current()
        if signed_in is not None:  # anybody may ask, and only one can write at a time
            with self._database.write() as connection:
                connection.execute(delete(session).where(session.c.digest == signed_in.digest))
        g.pop("signed_in", None)
        self.set_cookie(response, self.cookie, "", timedelta(0))

    def set_cookie(self, response: Response, name: str, value: str, life: timedelta | None) -> None:
        """Set a cookie that scripts can't read and other sites can't send along with a POST."""
        max_age = None if life is None else int(life.total_seconds())
        response.set_cookie(name, value, max_age=max_age, path="/", secure=self._secure, httponly=True, samesite="Lax")

    def _life(self, *, remembered: bool) -> timedelta:
        lifetimes = self._settings.lifetimes
        return lifetimes.session_remembered if remembered else lifetimes.session_idle

    def _find(self, token: str) -> SignedIn | None:
        if not SHAPE.fullmatch(token):
            return None
        digest = digest_of(token)
        with self._database.read() as connection:
            row = connection.execute(LIVING, {"digest": digest}).mappings().first()
        now = self._clock.now()
        # A clock that went back can't make a session live longer (design D11).
        if row is None or not to_us(now) < row["expires_at"] or row["seen_at"] > to_us(now + TOUCH):
            return None
        self._touch(row, now)
        return SignedIn(
            operator_id=row["operator_id"],
            email=row["email"],
            role=Role(row["role"]),
            csrf=row["csrf"],
            signed_in_at=from_us(row["signed_in_at"]),
            must_change=bool(row["must_change"]),
            digest=digest,
        )

    def _touch(self, row: Any, now: datetime) -> None:
        if now - from_us(row["seen_at"]) < TOUCH:
            return
        values: dict[str, int] = {"seen_at": to_us(now)}
        if not row["remembered"]:
            # Idle time counts from here, but never beyond the longest that a session may live.
            end = from_us(row["created_at"]) + self._life(remembered=True)
            values["expires_at"] = to_us(min(now + self._life(remembered=False), end))
        with self._database.write() as connection:
            connection.execute(update(session).where(session.c.digest == row["digest"]).values(values))

    def prefixed(self, path: str) -> str:
        """Give `path` as the browser knows it: under the path of the base URL."""
        return f"{self._settings.prefix}{path}"


def require_living(connection: Connection, signed_in: SignedIn) -> None:
    """Raise NotSignedIn unless this session still is; until the transaction ends nothing can cut the person off."""
    lock_living(connection, signed_in.operator_id)
    found = connection.execute(select(session.c.digest).where(session.c.digest == signed_in.digest)).first()
    if found is None:
        raise NotSignedIn


def see_other(path: str) -> Response:
    """Send the browser to `path` of this app by GET (RFC 9110 15.4.4), whatever came before."""
    answer = Response(status=303)
    answer.headers["Location"] = f"{request.script_root}{path}"
    answer.headers["Cache-Control"] = "no-store"
    return answer


def return_path() -> str:
    """Give the path to come back to after signing in: this one, where a page answers to it by GET."""
    path = quote(request.path, safe="/:@!$&'()*+,;=~-._")
    if request.method in ("GET", "HEAD"):
        query = request.query_string.decode("latin-1")
        return f"{path}?{query}" if query else path
    return path if current_app.url_map.bind("").test(request.path, "GET") else "/"


def is_own_path(path: str) -> bool:
    """Tell whether `path` stays in this app: browsers read `//host`, `/\\host` and `/<tab>/host` as other hosts."""
    return (
        path.startswith("/")
        and not path.startswith("//")
        and "\\" not in path
        and path.isprintable()
        and (path.isascii() and " " not in path)
    )
