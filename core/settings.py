"""Everything that changes how this process behaves, read once from the environment (design D10)."""

import ipaddress
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TypeVar
from urllib.parse import urlsplit

from core.errors import SettingsError

T = TypeVar("T")

DEFAULT_PORT = 6535
DEMO_FLOWS = tuple(f"flows.catalogue.{noun}" for noun in ("orders", "customers", "stock", "reports"))
SECRET_FILE = "secret-key"
SHORTEST_KEY = 32
MOST_DAYS = 36_500
NOTHING: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Argon2:
    """The cost of a password check: passes, KiB of memory, lanes (RFC 9106)."""

    time_cost: int = 3
    memory_kib: int = 65536
    parallelism: int = 1


@dataclass(frozen=True, slots=True)
class Lifetimes:
    """How long things live."""

    access_token: timedelta = timedelta(hours=1)
    refresh_idle: timedelta = timedelta(days=30)
    refresh_absolute: timedelta = timedelta(days=90)
    refresh_grace: timedelta = timedelta(seconds=60)
    auth_code: timedelta = timedelta(seconds=120)
    device_code: timedelta = timedelta(minutes=10)
    authorization_request: timedelta = timedelta(minutes=30)
    confirmation_undecided: timedelta = timedelta(minutes=15)
    confirmation_approved: timedelta = timedelta(minutes=10)
    session_idle: timedelta = timedelta(hours=12)
    session_remembered: timedelta = timedelta(days=14)
    fresh_sign_in: timedelta = timedelta(minutes=10)
    request_key: timedelta = timedelta(days=30)


@dataclass(frozen=True, slots=True)
class Retention:
    """How long records are kept, each from its own end; None keeps them for ever (docs/operations.md)."""

    writes: timedelta | None = timedelta(days=365)  # runs that may have changed something, with their steps
    reads: timedelta | None = timedelta(days=90)
    confirmations: timedelta | None = timedelta(days=90)  # one that was spent stays as long as its run
    audit: timedelta | None = timedelta(days=730)
    sent_messages: timedelta | None = timedelta(days=30)
    failed_messages: timedelta | None = timedelta(days=90)
    connections: timedelta | None = timedelta(days=90)  # ended grants and removed clients
    tokens: timedelta | None = timedelta(days=7)
    requests: timedelta = timedelta(days=1)  # authorization requests and codes
    tries: timedelta = timedelta(days=1)  # no shorter: the longest window in which tries are counted
    unused_clients: timedelta = timedelta(days=30)
    client_events: timedelta = timedelta(days=30)


MADE_BY_STRANGERS = (
    "requests",
    "tries",
    "unused_clients",
    "client_events",
)  # these grow by what anybody does, so they always end


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The frozen settings of one process; `secret_keys` are `(current, *older)`, an empty `bind` is loopback."""

    base_url: str
    port: int
    instance: Path
    database_url: str
    secret_keys: tuple[str, ...]
    production: bool
    workers: int = 2
    bind: tuple[str, ...] = ()
    flows: tuple[str, ...] = DEMO_FLOWS
    allowed_origins: frozenset[str] = frozenset()
    trusted_proxies: int = 0
    unattended_clients: frozenset[str] = frozenset()
    advertise_iss: bool = True  # off for Codex 0.142 to 0.146, which drop the `iss` that metadata promises
    docs_mcp: bool = True  # whether `serve` also offers its documentation to agents; in production only when asked
    device_grant: bool = False  # whether clients that an administrator names may connect devices without a browser
    cimd: bool = True  # whether clients may be metadata documents, which this server fetches
    cimd_allowed_hosts: frozenset[str] = frozenset()  # empty: every public one; `.name` is it and all below it
    cimd_denied_hosts: frozenset[str] = frozenset()
    argon2: Argon2 = Argon2()
    lifetimes: Lifetimes = Lifetimes()
    retention: Retention = Retention()
    write_deadline: timedelta = timedelta(seconds=5)
    read_deadline: timedelta = timedelta(seconds=50)
    call_deadline: timedelta = timedelta(seconds=30)
    result_bytes: int = 100_000
    listed_flows: int = 60  # an application with more of them offers tools_search instead of a tool for each
    smtp_url: str | None = None
    mail_from: str = "countersign@localhost"

    def __repr__(self) -> str:
        return f"Settings(base_url={self.base_url!r}, production={self.production})"

    @property
    def issuer(self) -> str:
        """The authorization server's name, compared letter by letter by clients (RFC 8414 2)."""
        return self.base_url

    @property
    def resource(self) -> str:
        """The one protected resource (RFC 8707, RFC 9728)."""
        return f"{self.base_url}/mcp"

    @property
    def origin(self) -> str:
        """Scheme and authority of the base URL."""
        parts = urlsplit(self.base_url)
        return f"{parts.scheme}://{parts.netloc}"

    @property
    def prefix(self) -> str:
        """The path of the base URL, `""` at the root."""
        return urlsplit(self.base_url).path

    @property
    def cookie_alone_decides(self) -> bool:
        """Whether a fresh sign-in is proof enough: https on a host that isn't this machine (design D4)."""
        return self.base_url.startswith("https://") and not is_loopback(urlsplit(self.base_url).hostname or "")


def is_loopback(host: str) -> bool:
    """Tell whether `host` names this machine itself."""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def load_settings(
    environ: Mapping[str, str] | None = None, *, folder: Path | None = None, before_secrets: bool = False
) -> Settings:
    """Read the settings from `COUNTERSIGN_*` and `.env`; raise SettingsError naming every gap at once.

    A base URL on a host other than this machine means production unless COUNTERSIGN_ENV says otherwise;
    in production the base URL must be given, and be https. `before_secrets` is for the commands that make the key
    file: without one, `secret_keys` is empty instead of a gap.
    """
    settings, faults = read_settings(environ, folder=folder, before_secrets=before_secrets)
    if faults:
        raise SettingsError("; ".join(faults))
    return settings


def read_settings(
    environ: Mapping[str, str] | None = None, *, folder: Path | None = None, before_secrets: bool = False
) -> tuple[Settings, tuple[str, ...]]:
    """Give the settings, with the default in the place of what can't be used, and a sentence for each gap."""
    folder = folder or Path.cwd()
    given = {**_read_dotenv(folder / ".env"), **(os.environ if environ is None else environ)}
    reader = _Reader(given)
    port = reader.value("PORT", DEFAULT_PORT, _port)
    base_url = reader.value("BASE_URL", f"http://localhost:{port}", _base_url)
    instance = reader.value("INSTANCE", folder / "instance", lambda text: Path(text).expanduser().absolute())
    on_this_machine = is_loopback(urlsplit(base_url).hostname or "")
    production = reader.value("ENV", not on_this_machine, _production)
    if production and not reader.has("BASE_URL"):
        reader.faults.append("COUNTERSIGN_BASE_URL is missing: set the one address, like https://app.example.com")
    if production and not base_url.startswith("https://") and not on_this_machine:
        reader.faults.append("COUNTERSIGN_BASE_URL must be https in production")
    keys = reader.value("SECRET_KEYS", NOTHING, _keys)
    keys = keys or _read_secret_file(instance / SECRET_FILE, reader.faults, needed=not before_secrets)
    settings = Settings(
        base_url=base_url,
        port=port,
        instance=instance,
        database_url=reader.value(
            "DATABASE_URL", f"sqlite:///{instance / 'countersign.db'}", lambda text: _database_url(text, folder)
        ),
        secret_keys=keys,
        production=production,
        workers=reader.value("WORKERS", 2, _positive),
        bind=reader.value("BIND", NOTHING, _bind),
        flows=reader.value("FLOWS", DEMO_FLOWS, _words),
        allowed_origins=frozenset(reader.value("ALLOWED_ORIGINS", NOTHING, _words)),
        trusted_proxies=reader.value("TRUSTED_PROXIES", 0, _count),
        unattended_clients=frozenset(reader.value("UNATTENDED_CLIENTS", NOTHING, _words)),
        advertise_iss=reader.value("ADVERTISE_ISS", default=True, cast=_switch),
        docs_mcp=reader.value("DOCS_MCP", default=not production, cast=_switch),
        device_grant=reader.value("DEVICE_GRANT", default=False, cast=_switch),
        cimd=reader.value("CIMD", default=True, cast=_switch),
        cimd_allowed_hosts=frozenset(reader.value("CIMD_ALLOWED_HOSTS", NOTHING, _hosts)),
        cimd_denied_hosts=frozenset(reader.value("CIMD_DENIED_HOSTS", NOTHING, _hosts)),
        argon2=reader.value("ARGON2", Argon2(), _argon2),
        lifetimes=_lifetimes(reader),
        retention=_retention(reader),
        write_deadline=timedelta(seconds=reader.value("WRITE_DEADLINE", 5, _positive)),
        read_deadline=timedelta(seconds=reader.value("READ_DEADLINE", 50, _positive)),
        call_deadline=timedelta(seconds=reader.value("CALL_DEADLINE", 30, _positive)),
        listed_flows=reader.value("LISTED_FLOWS", 60, _positive),
        result_bytes=reader.value("RESULT_BYTES", 100_000, _positive),
        smtp_url=reader.value("SMTP_URL", None, _smtp_url),
        mail_from=reader.value("MAIL_FROM", "countersign@localhost", str.strip),
    )
    return settings, tuple(reader.faults)


def _lifetimes(reader: "_Reader") -> Lifetimes:
    defaults = Lifetimes()
    return Lifetimes(
        **{
            name: timedelta(
                seconds=reader.value(f"{name.upper()}_SECONDS", int(getattr(defaults, name).total_seconds()), _positive)
            )
            for name in Lifetimes.__slots__
        }
    )


def _retention(reader: "_Reader") -> Retention:
    defaults, kept = Retention(), {}
    for name in Retention.__slots__:
        cast = _days if name in MADE_BY_STRANGERS else _days_or_for_ever
        kept[name] = reader.value(f"KEEP_{name.upper()}_DAYS", getattr(defaults, name), cast)
    return Retention(**kept)


class _Reader:
    """Casts each variable as it is read and collects what can't be used."""

    def __init__(self, given: Mapping[str, str]) -> None:
        self._given = given
        self.faults: list[str] = []

    def has(self, name: str) -> bool:
        return bool(self._given.get(f"COUNTERSIGN_{name}", "").strip())

    def value(self, name: str, default: T, cast: Callable[[str], T]) -> T:
        text = self._given.get(f"COUNTERSIGN_{name}", "").strip()
        if not text:
            return default
        try:
            return cast(text)
        except ValueError as error:
            self.faults.append(f"COUNTERSIGN_{name}: {error}")
            return default


def _read_dotenv(path: Path) -> dict[str, str]:
    """Read `NAME=value` lines; the process environment wins over them."""
    try:
        lines = path.read_text("utf-8").splitlines()
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"{path.name} can't be read: {error}") from None
    pairs = (line.split("=", 1) for line in lines if "=" in line and not line.lstrip().startswith("#"))
    return {name.strip().removeprefix("export "): value.strip().strip("\"'") for name, value in pairs}


def _read_secret_file(path: Path, faults: list[str], *, needed: bool) -> tuple[str, ...]:
    try:
        text = path.read_text("ascii")
    except (FileNotFoundError, NotADirectoryError):
        if needed:
            faults.append("no secret key: run `countersign secrets init` or set COUNTERSIGN_SECRET_KEYS")
        return ()
    except (OSError, UnicodeDecodeError):
        faults.append(f"the secret key file {path} can't be read")
        return ()
    try:
        return _keys(",".join(key for line in text.splitlines() for key in line.partition("#")[0].split()))
    except ValueError as error:
        faults.append(f"the secret key file {path} is damaged: {error}")
        return ()


def _keys(text: str) -> tuple[str, ...]:
    keys = tuple(part.strip() for part in text.split(",") if part.strip())
    if not keys or any(not re.fullmatch(rf"[\w-]{{{SHORTEST_KEY},}}", key, re.ASCII) for key in keys):
        raise ValueError(f"each key needs at least {SHORTEST_KEY} characters of A-Z a-z 0-9 _ -, the newest first")
    return keys


BASE_PATH = re.compile(r"(/[A-Za-z0-9_~-][A-Za-z0-9._~-]*)*")
OUR_PATHS = ("mcp", "oauth", "authorize", "token", "register", "login", ".well-known", "static")


def _base_url(text: str) -> str:
    parts = urlsplit(text.rstrip("/"))
    plain = parts.scheme in ("http", "https") and parts.hostname and not (parts.query or parts.fragment)
    if not plain or parts.username or parts.netloc != parts.netloc.lower() or (parts.hostname or "").endswith("."):
        raise ValueError("must be like https://app.example.com or https://app.example.com/team/a, in lower case")
    if parts.port == 0 or not BASE_PATH.fullmatch(parts.path):  # `.port` raises ValueError beyond 65535
        raise ValueError("its port and path must be plain, like :8443/team/a")
    if parts.path.split("/")[1:2] and parts.path.split("/")[1] in OUR_PATHS:
        raise ValueError("its path can't start with one of our own, such as /mcp")
    return parts.geturl()


def _port(text: str) -> int:
    if not text.isascii() or not text.isdigit() or not 1 <= int(text) <= 65535:
        raise ValueError("must be a port from 1 to 65535")
    return int(text)


def _bind(text: str) -> tuple[str, ...]:
    found = _words(text)
    for one in found:
        try:
            if not re.fullmatch(r"unix:/[^\s]*[^\s/]", one):
                ipaddress.ip_address(one)
        except ValueError:
            raise ValueError("must be addresses such as 0.0.0.0 or ::, or unix:/run/countersign/http.sock") from None
    return found


def _count(text: str) -> int:
    if not text.isascii() or not text.isdigit():
        raise ValueError("must be a whole number")
    return int(text)


def _positive(text: str) -> int:
    if _count(text) < 1:
        raise ValueError("must be at least 1")
    return int(text)


def _days(text: str) -> timedelta:
    if _positive(text) > MOST_DAYS:
        raise ValueError(f"must be at most {MOST_DAYS} days")
    return timedelta(days=int(text))


def _days_or_for_ever(text: str) -> timedelta | None:
    return None if _count(text) == 0 else _days(text)


def _production(text: str) -> bool:
    if text not in ("production", "development"):
        raise ValueError("must be production or development")
    return text == "production"


def _words(text: str) -> tuple[str, ...]:
    return tuple(part for part in re.split(r"[,\s]+", text) if part)


def _switch(text: str) -> bool:
    if text not in ("on", "off"):
        raise ValueError("must be on or off")
    return text == "on"


def _hosts(text: str) -> tuple[str, ...]:
    found = _words(text)
    if any(not re.fullmatch(r"\.?[a-z0-9-]+(\.[a-z0-9-]+)*", name) for name in found):
        raise ValueError("must be names in lower case such as claude.ai, or .example.com for it and every host below")
    return found


def _argon2(text: str) -> Argon2:
    try:
        time_cost, memory_kib, parallelism = (int(part) for part in text.split(","))
    except ValueError:
        raise ValueError("must be three numbers: passes, KiB, lanes") from None
    return Argon2(time_cost, memory_kib, parallelism)


def _database_url(text: str, folder: Path) -> str:
    if text.startswith("postgresql://"):
        return text.replace("postgresql://", "postgresql+psycopg://", 1)
    if not text.startswith(("sqlite:///", "postgresql+psycopg://")):
        raise ValueError("must start with sqlite:/// or postgresql://")
    file = text.removeprefix("sqlite:///")
    if file == text or file.startswith(("/", ":", "file:")):
        return text
    return f"sqlite:///{folder.absolute() / file}"  # where the application's own engine finds it, too


def _smtp_url(text: str) -> str:
    if urlsplit(text).scheme not in ("smtp", "smtps"):
        raise ValueError("must be like smtps://user:password@mail.example.com:465")
    return text
