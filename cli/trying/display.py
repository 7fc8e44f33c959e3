"""What a server answered, for a person to read: tables for lists of objects, `key: value` for objects."""

import json
import textwrap
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from cli.tables import lines
from cli.trying.arguments import properties, required, types_of, values_of
from cli.trying.text import block, compact, line

if TYPE_CHECKING:
    from mcp_types import CallToolResult, ContentBlock, Tool

LONGEST_CELL = 60
LONGEST_KEY = 40
MOST_COLUMNS = 12
ROWS_FOR_COLUMNS = 100
DEEPEST = 4
INDENT = "  "

Style = Callable[[str], str]


def tools_table(tools: "Sequence[Tool]", bold: Style = str) -> str:
    """Give one row a tool: its name, whether it only reads, what it is for."""
    rows = [(line(tool.name, LONGEST_CELL), _kind(tool), _purpose(tool)) for tool in tools]
    return _table(("TOOL", "KIND", "WHAT IT DOES"), rows, bold)


def tool_sheet(tool: "Tool", bold: Style = str) -> str:
    """Give a tool's description and one row an argument."""
    schema = tool.input_schema
    needed = required(schema)
    rows = [
        (line(name, LONGEST_CELL), _types(one, schema), "yes" if name in needed else "-", _described(one))
        for name, one in properties(schema).items()
    ]
    table = _table(("ARGUMENT", "TYPE", "NEEDED", "WHAT IT IS"), rows, bold) if rows else "It takes no arguments."
    return "\n\n".join(part for part in (_about(tool, bold), table) if part)


def result_text(result: "CallToolResult", bold: Style = str) -> str:
    """Give everything that a tool answered; a text that only repeats the structured content is left out."""
    data = result.structured_content
    parts = [_content(one) for one in result.content if not _repeats(one, data)]
    if data is not None:
        parts.append(value_text(data, bold))
    return "\n\n".join(part for part in parts if part) or "(an empty answer)"


def value_text(value: Any, bold: Style = str, depth: int = 0) -> str:
    """Give any JSON value in lines."""
    if depth > DEEPEST:
        return compact(value, 400)
    if isinstance(value, dict):
        return "\n".join(_entry(key, one, bold, depth) for key, one in value.items())
    if _is_table(value):
        return _rows(value, bold)
    if isinstance(value, list):
        return "\n".join(f"- {_cell(one, 400)}" for one in value)
    return block(value) if isinstance(value, str) else _cell(value, 400)


def size(count: int) -> str:
    """Give a number of bytes as people say it."""
    return f"{count} bytes" if count < 1000 else f"{count / 1000:.0f} kB"


def _kind(tool: "Tool") -> str:
    # What the server says of its own tool; nothing is decided by it.
    return "reads" if tool.annotations is not None and tool.annotations.read_only_hint else "acts"


def _purpose(tool: "Tool") -> str:
    told = tool.title or (tool.annotations.title if tool.annotations else None) or tool.description or ""
    return line(told, LONGEST_CELL)


def _about(tool: "Tool", bold: Style) -> str:
    title = f"  {line(tool.title, LONGEST_CELL)}" if tool.title else ""
    return f"{bold(line(tool.name, LONGEST_CELL))}{title}\n{block(tool.description or '').strip()}".strip()


def _types(schema: Any, root: Mapping[str, Any]) -> str:
    if allowed := values_of(schema, root):
        return compact(allowed, LONGEST_CELL)
    return line(" or ".join(sorted(types_of(schema, root) or {"any"})), LONGEST_CELL)


def _described(schema: Any) -> str:
    told = schema.get("description") if isinstance(schema, dict) else None
    return line(told, 2 * LONGEST_CELL) if isinstance(told, str) else ""


def _repeats(content: "ContentBlock", data: Any) -> bool:
    if data is None or content.type != "text":
        return False
    # The SDK's server wraps what isn't an object as `result`.
    said = (data, data["result"]) if isinstance(data, dict) and data.keys() == {"result"} else (data,)
    try:
        return json.loads(content.text) in said
    except (ValueError, RecursionError):
        return content.text in said


def _content(content: "ContentBlock") -> str:
    if content.type == "text":
        return block(content.text)
    if content.type == "image" or content.type == "audio":  # noqa: PLR1714  mypy narrows only by single comparisons
        return f"{content.type}, {size(len(content.data) * 3 // 4)}"
    if content.type == "resource_link":
        return f"link: {line(content.uri, 400)}"
    inside = content.resource
    text = getattr(inside, "text", None)
    if isinstance(text, str):
        return f"resource {line(inside.uri, 400)}\n{block(text)}"
    return f"resource {line(inside.uri, 400)}, {size(len(getattr(inside, 'blob', '')) * 3 // 4)}"


def _entry(key: str, value: Any, bold: Style, depth: int) -> str:
    name = bold(f"{line(key, LONGEST_KEY)}:")
    if isinstance(value, dict | list) and value:
        return f"{name}\n{textwrap.indent(value_text(value, bold, depth + 1), INDENT)}"
    if isinstance(value, str) and "\n" in value:
        return f"{name}\n{textwrap.indent(block(value), INDENT)}"
    return f"{name} {block(value) if isinstance(value, str) else _cell(value, 400)}"


def _is_table(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(row, dict) and row for row in value)


def _rows(rows: Sequence[Mapping[str, Any]], bold: Style) -> str:
    columns = list(dict.fromkeys(key for row in rows[:ROWS_FOR_COLUMNS] for key in row))
    shown = columns[:MOST_COLUMNS]
    cells = [tuple(_cell(row.get(key), LONGEST_CELL) for key in shown) for row in rows]
    table = _table([line(key, LONGEST_KEY) for key in shown], cells, bold)
    left_out = len(columns) - len(shown)
    return f"{table}\n({left_out} more columns: --json has them)" if left_out else table


def _table(head: Sequence[str], rows: Sequence[Sequence[str]], bold: Style) -> str:
    first, *rest = lines(head, rows).split("\n")
    return "\n".join((bold(first), *rest))


def _cell(value: Any, longest: int) -> str:
    if value is None:
        return "-"
    return line(value, longest) if isinstance(value, str) else compact(value, longest)
