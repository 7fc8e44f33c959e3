"""How a client is told our address: one address for all, and a line to paste for each of three clients."""

from dataclasses import dataclass

import orjson


@dataclass(frozen=True, slots=True)
class ConnectLines:
    """The MCP address, and (client, line to paste) pairs."""

    address: str
    clients: tuple[tuple[str, str], ...]


def connect_lines(address: str) -> ConnectLines:
    """Give what a person pastes to connect Claude Code, Codex or VS Code to `address`."""
    vs_code = orjson.dumps({"name": "countersign", "type": "http", "url": address}).decode()
    return ConnectLines(
        address,
        (
            ("Claude Code", f"claude mcp add --transport http countersign {address}"),
            ("Codex", f"codex mcp add countersign --url {address}"),
            ("VS Code", f"code --add-mcp '{vs_code}'"),
        ),
    )
