"""Whether this process lives, and whether it can answer (design D14)."""

from collections.abc import Callable, Mapping

from flask import Blueprint, Response
from sqlalchemy.exc import SQLAlchemyError

from core.errors import AppError
from core.http import json_answer

Check = Callable[[], object]


def health_routes(checks: Mapping[str, Check]) -> Blueprint:
    """Serve `/healthz`, which asks nothing, and `/readyz`, which runs each named check."""
    bp = Blueprint("health", __name__)

    @bp.get("/healthz")
    def alive() -> Response:
        return json_answer({"status": "ok"})

    @bp.get("/readyz")
    def ready() -> Response:
        found = {name: _outcome(check) for name, check in checks.items()}
        is_ready = all(outcome == "ok" for outcome in found.values())
        body = {"status": "ok" if is_ready else "unavailable", "checks": found}
        return json_answer(body, status=200 if is_ready else 503)

    return bp


def _outcome(check: Check) -> str:
    """Run one check and give `ok` or the code of what is wrong; no internals, anybody may ask."""
    try:
        check()
    except AppError as error:
        return error.code
    except SQLAlchemyError:
        return "database_unavailable"
    return "ok"
