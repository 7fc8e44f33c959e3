"""The server's icon, for revisions that know icons (checklist T12, W17)."""

import base64
from pathlib import Path
from typing import Any

ICONS_SINCE = "2025-11-25"
MARK = Path(__file__).resolve().parents[1] / "static" / "mark.svg"
SVG = "image/svg+xml"
Icon = dict[str, Any]


def server_icon(base_url: str) -> Icon:
    """Give the icon by its address, or whole where the address is plain http, which clients refuse."""
    src = address_of_icon(base_url)
    if src is None:
        src = f"data:{SVG};base64,{base64.b64encode(MARK.read_bytes()).decode()}"
    return {"src": src, "mimeType": SVG, "sizes": ["any"]}


def address_of_icon(base_url: str) -> str | None:
    """Give where the icon is served by https; None on an address of plain http."""
    return f"{base_url}/static/{MARK.name}" if base_url.startswith("https://") else None
