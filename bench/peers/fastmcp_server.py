"""The peer FastMCP: the job as a tool, beside the same tools as ours in its list, without authentication or record."""

import json
import os
from pathlib import Path
from typing import Annotated, Any

from fastmcp import FastMCP
from fastmcp.tools import Tool
from mcp.types import ToolAnnotations
from pydantic import Field
from shop import get_order

server = FastMCP("bench")


def orders_get(order_id: Annotated[int, Field(ge=1, le=2**31 - 1)]) -> dict[str, Any]:
    """Show one order with its lines."""
    return get_order(order_id)


class ListedTool(Tool):
    """A tool that is only listed, with the schemas of ours."""


def _ours(tool: dict[str, Any]) -> Tool:
    about = {"name": tool["name"], "title": tool["title"], "description": tool["description"]}
    about |= {"output_schema": tool.get("outputSchema"), "annotations": ToolAnnotations(**tool["annotations"])}
    if tool["name"] == "orders_get":
        return Tool.from_function(
            orders_get, **about
        )  # in FastMCP's helper thread, as it does with every plain function
    return ListedTool(parameters=tool["inputSchema"], **about)


for listed in json.loads(Path(os.environ["BENCH_TOOLS"]).read_text()):
    server.add_tool(_ours(listed))

app = server.http_app(path="/mcp", stateless_http=True, json_response=True)
