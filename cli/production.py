"""Everything that is to be right before a start in production, looked at together; nothing is made or changed."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

from sqlalchemy.exc import DBAPIError

from cli.findings import Finding, warning
from cli.flows import NO_KEY
from cli.machine import find_about_sqlite, find_on_machine
from cli.parts import Build, Parts
from cli.refusals import first_line
from core.settings import DEMO_FLOWS, Argon2, Settings, is_loopback
from flows.caller import Role
from flows.effects import Verb
from flows.faults import FlowFaults
from migrations import revisions

FEWEST_SIGNS = 12  # of 64 in a key of 43 by chance there are about 31 different ones
LEAST_ARGON2 = Argon2(time_cost=2, memory_kib=19_456, parallelism=1)  # OWASP, Password Storage Cheat Sheet
HELPS = (("secrets init", "countersign secrets init"), ("BASE_URL", "COUNTERSIGN_BASE_URL=https://app.example.com"))
CORRECT = "Correct it in the environment or in .env; the README lists every setting."


def find_all(settings: Settings, gaps: tuple[str, ...], build: Build, folder: Path) -> list[Finding]:
    """Name what stops a start with these settings, and what is worth knowing; `gaps` are those of read_settings."""
    found = [Finding(gap, next((helps for word, helps in HELPS if word in gap), CORRECT)) for gap in gaps]
    found += _addresses(settings, gaps)
    found += _strength(settings)
    found += find_on_machine(settings, folder / ".env")
    found += _built(settings, gaps, build)
    return found


def _addresses(settings: Settings, gaps: tuple[str, ...]) -> Iterator[Finding]:
    if any("BASE_URL" in gap for gap in gaps):
        pass  # said already
    elif settings.base_url.startswith("http:"):
        yield Finding(
            f"The base URL {settings.base_url} is not https: passwords and tokens would travel in the open.",
            f"COUNTERSIGN_BASE_URL=https:{settings.base_url.partition(':')[2]}, with a proxy that has the certificate",
        )
    elif is_loopback(urlsplit(settings.base_url).hostname or ""):
        yield warning(
            f"Only programs on this machine reach {settings.base_url}.", "COUNTERSIGN_BASE_URL=https://app.example.com"
        )
    reached = [one for one in settings.bind if not one.startswith("unix:") and not is_loopback(one)]
    if reached and settings.trusted_proxies:
        yield warning(
            f"Whoever reaches {', '.join(reached)} past the proxy can invent the address that they come from.",
            "Let a firewall, or the container's network, admit the proxy alone.",
        )
    if not settings.trusted_proxies:
        yield warning(
            "No proxy is trusted: behind one, all people have its address, and wrong passwords of one pause everybody.",
            "COUNTERSIGN_TRUSTED_PROXIES=1 (how many proxies stand in front)",
        )


def _strength(settings: Settings) -> Iterator[Finding]:
    if any(len(set(key)) < FEWEST_SIGNS for key in settings.secret_keys):
        yield Finding(
            "A secret key is weak: it has few different characters, and was not made by chance.",
            "Delete it, then: countersign secrets init (everybody signs in and connects anew)",
        )
    given, least = settings.argon2, LEAST_ARGON2
    if given.memory_kib < least.memory_kib or given.time_cost < least.time_cost:
        yield warning("COUNTERSIGN_ARGON2 makes stolen password hashes cheap to guess.", "Unset COUNTERSIGN_ARGON2.")


def _built(settings: Settings, gaps: tuple[str, ...], build: Build) -> Iterator[Finding]:
    """Look at flows and database as far as the settings that name them could be read."""
    complete = replace(settings, secret_keys=settings.secret_keys or NO_KEY)
    try:
        parts = build(complete)
    except FlowFaults as error:
        yield from (Finding(str(fault), "countersign flows check") for fault in error.faults)
        parts = build(replace(complete, flows=()))
    else:
        yield from _flows(parts)
    if not any("DATABASE_URL" in gap for gap in gaps):
        yield from _database(settings, parts)


def _flows(parts: Parts) -> Iterator[Finding]:
    if any(name in DEMO_FLOWS for name in parts.settings.flows):
        yield warning(
            "The demo shop is served: invented orders, for trying out.", "COUNTERSIGN_FLOWS=shop.flows (docs/flows.md)"
        )
    sends = any(effect.verb is Verb.SEND for flow in parts.registry for effect in flow.effects)
    if sends and parts.settings.smtp_url is None:
        yield warning(
            f"Flows send mail, and there is no mail server: it stays in {parts.settings.instance / 'outbox'}.",
            "COUNTERSIGN_SMTP_URL=smtps://user:password@mail.example.com:465",
        )


def _database(settings: Settings, parts: Parts) -> Iterator[Finding]:
    name = parts.database.writing.url.database
    if parts.database.is_sqlite and name:
        file = Path(name)
        yield from find_about_sqlite(file)
        if not file.exists():  # connecting would make it
            return
    try:
        revisions.require_current(parts.database, demo=revisions.is_demo(settings.flows))
        yield from _people(parts)
    except revisions.WrongRevision as error:
        yield Finding(error.public, "countersign db upgrade")
    except DBAPIError as error:
        yield Finding(
            f"The database can't be used: {first_line(error)}", "Start it, or correct COUNTERSIGN_DATABASE_URL."
        )


def _people(parts: Parts) -> Iterator[Finding]:
    admins = [one for one in parts.operators.list() if one.role is Role.ADMIN and one.disabled_at is None]
    if not admins:
        yield Finding("There is no administrator.", "countersign operator add you@example.com --role admin")
