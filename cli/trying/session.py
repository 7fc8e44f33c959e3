"""A connection to an MCP server through the official client, and what it may cost: pages, bytes, time."""

import contextlib
import logging
from collections.abc import AsyncIterator, Iterator
from typing import Any, Literal

import httpx2
from mcp.client import Client
from mcp.client.auth import OAuthFlowError
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError
from mcp_types import CallToolResult, Implementation, Tool
from pydantic import ValidationError

from cli.trying.addresses import host_of
from cli.trying.network import LARGEST_ANSWER, SECONDS, http_client
from cli.trying.refusals import AnswerUnusable, NoSuchTool, ServerRefused, SignInFailed, TryRefused, Unreachable
from cli.trying.sign_in import CLIENT_NAME, SignIn
from cli.trying.text import line

MOST_PAGES = 100
MOST_TOOLS = 5000
LONGEST_SENTENCE = 600
HELPFUL = ("remedy", "grantUrl")

Era = Literal["auto", "legacy"]


@contextlib.asynccontextmanager
async def connected(auth: SignIn, era: Era) -> AsyncIterator[Client]:
    """Connect, signing in where the server asks for it."""
    address = auth.file.address
    async with http_client(address, auth) as http:
        streams = streamable_http_client(address, http_client=http, max_sse_event_size=LARGEST_ANSWER)
        client = Client(
            streams,
            mode=era,
            client_info=Implementation(name=CLIENT_NAME, version="1"),
            read_timeout_seconds=SECONDS,
            cache=None,
        )
        async with client:
            yield client


async def all_tools(client: Client) -> list[Tool]:
    """Give every page of the tool list; raise AnswerUnusable when it doesn't end."""
    found: list[Tool] = []
    cursor: str | None = None
    for _ in range(MOST_PAGES):
        page = await client.list_tools(cursor=cursor)
        found += page.tools
        if page.next_cursor is None:
            return found
        if page.next_cursor == cursor or len(found) > MOST_TOOLS:
            break
        cursor = page.next_cursor
    raise AnswerUnusable(f"The server's list of tools doesn't end: {len(found)} tools, and it has more.")


async def get_tool(client: Client, name: str) -> tuple[Tool, list[Tool]]:
    """Give the tool with this name, and all; raise NoSuchTool naming those that there are."""
    tools = await all_tools(client)
    for tool in tools:
        if tool.name == name:
            return tool, tools
    names = line(", ".join(tool.name for tool in tools), LONGEST_SENTENCE) or "none"
    raise NoSuchTool(f"The server shows no tool {line(name, 100)} to this connection. It shows: {names}.")


async def call(client: Client, name: str, arguments: dict[str, Any]) -> CallToolResult:
    """Call a tool; raise AnswerUnusable when the result isn't what the tool's own schema promises."""
    try:
        return await client.call_tool(name, arguments)
    except RuntimeError as error:  # what the SDK raises after it has held the result against the output schema
        raise AnswerUnusable(line(str(error), LONGEST_SENTENCE)) from None


@contextlib.contextmanager
def told_plainly(address: str) -> Iterator[None]:
    """Raise TryRefused in place of what the SDK raises; anything else is a defect and stays as it is."""
    _silence_libraries()
    try:
        yield
    except BaseExceptionGroup as group:
        leaves = list(_leaves(group))
        for leaf in leaves:
            if isinstance(leaf, KeyboardInterrupt):
                raise KeyboardInterrupt from None
        for refused in (_refusal(leaf, address) for leaf in leaves):
            if refused is not None:
                raise refused from None
        raise
    except (MCPError, OAuthFlowError, httpx2.HTTPError, httpx2.InvalidURL, ValidationError, TimeoutError) as error:
        raise _refusal(error, address) or error from None


def _silence_libraries() -> None:
    # Without any handler Python writes their warnings, a stranger's text among them, raw to the terminal.
    root = logging.getLogger()
    if not root.handlers:
        root.addHandler(logging.NullHandler())


def _leaves(group: BaseExceptionGroup[BaseException]) -> Iterator[BaseException]:
    for one in group.exceptions:
        if isinstance(one, BaseExceptionGroup):
            yield from _leaves(one)
        else:
            yield one


def _refusal(error: BaseException, address: str) -> TryRefused | None:
    if isinstance(error, TryRefused):
        return error
    told = line(str(error), LONGEST_SENTENCE)
    if isinstance(error, MCPError):
        return ServerRefused(_server_words(error))
    if isinstance(error, OAuthFlowError):
        return SignInFailed(told or "The sign-in failed.")
    if isinstance(error, ValidationError):
        return AnswerUnusable(f"{host_of(address)} doesn't answer as the protocol says.")
    if isinstance(error, httpx2.HTTPError | httpx2.InvalidURL | TimeoutError):
        return Unreachable(f"{line(address, 200)} can't be reached: {told or type(error).__name__}")
    return None


def _server_words(error: MCPError) -> str:
    data = error.error.data if isinstance(error.error.data, dict) else {}
    helpful = [f"{name}: {data[name]}" for name in HELPFUL if isinstance(data.get(name), str)]
    return line(" ".join((f"{error.error.message} ({error.error.code})", *helpful)), LONGEST_SENTENCE)
