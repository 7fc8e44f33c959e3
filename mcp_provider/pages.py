"""Pages of a list: a cursor is sealed, and belongs to one operator and to one state of one list."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from mcp_types.jsonrpc import INVALID_PARAMS

from core.errors import InvalidCursor
from core.seal import BadSeal, Sealer
from mcp_provider.messages import RpcError
from policy.principal import Principal

PAGE = 200
PURPOSE, LIFETIME = "mcp-list-cursor", timedelta(hours=1)


class Pager:
    """Cuts lists into pages."""

    def __init__(self, sealer: Sealer, digest: str) -> None:
        self._sealer = sealer
        self._digest = digest

    def page(self, principal: Principal, member: str, items: Sequence[Any], cursor: str | None) -> dict[str, Any]:
        """Give the members of one page; raise RpcError for a cursor that isn't ours, of this operator and list."""
        list_of = [member, principal.caller.operator_id, self._digest, len(items)]
        start = 0 if cursor is None else self._opened(list_of, cursor)
        members: dict[str, Any] = {member: list(items[start : start + PAGE])}
        if start + PAGE < len(items):
            members["nextCursor"] = self._sealer.seal(PURPOSE, [*list_of, start + PAGE])
        return members

    def _opened(self, list_of: list[Any], cursor: str) -> int:
        try:
            *of, start = self._sealer.open(PURPOSE, cursor, within=LIFETIME)
        except BadSeal:
            raise invalid_cursor() from None
        if of != list_of:
            raise invalid_cursor()
        return int(start)


def invalid_cursor() -> RpcError:
    """Give the refusal of a cursor that we didn't hand out for this list."""
    return RpcError(INVALID_PARAMS, InvalidCursor.public, data={"code": InvalidCursor.code})
