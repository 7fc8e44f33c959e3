"""What each command of `countersign try` does once its words are read; imported when one runs, for it loads the SDK."""

import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import anyio
from mcp.client import Client
from mcp_types import CallToolResult, Tool

from cli.trying.arguments import read_arguments
from cli.trying.callback import Callback
from cli.trying.confirming import call_confirmed, can_confirm, exit_code_of
from cli.trying.refusals import TokenFileUnusable, TryRefused
from cli.trying.session import Era, all_tools, call, connected, get_tool, told_plainly
from cli.trying.sign_in import Say, SignIn, revoke
from cli.trying.token_file import TokenFile
from core.clock import Clock

T = TypeVar("T")
FORGOTTEN = "The file here is deleted; end the access at the server, where your connections are."


@dataclass(frozen=True, slots=True)
class Trial:
    """One command against one server: where, how to speak, and whom to tell what happens meanwhile."""

    address: str
    era: Era
    browser: bool
    clock: Clock
    say: Say

    def tools(self) -> list[Tool]:
        """Give the server's tools; raise TryRefused."""
        return self._run(all_tools)

    def tool(self, name: str) -> Tool:
        """Give one tool; raise TryRefused."""

        async def look_up(client: Client) -> Tool:
            return (await get_tool(client, name))[0]

        return self._run(look_up)

    def call(self, name: str, words: Sequence[str], given: str | None) -> tuple[CallToolResult, int]:
        """Call one tool, through its confirmation where it has one; give its answer and the exit status.

        Raise TryRefused.
        """

        async def do(client: Client) -> CallToolResult:
            tool, tools = await get_tool(client, name)
            arguments = read_arguments(tool.input_schema, words, given)
            if can_confirm(tool, tools):
                return await call_confirmed(client, name, arguments, self.say)
            return await call(client, name, arguments)

        result = self._run(do)
        return result, exit_code_of(result)

    def sign_out(self) -> tuple[bool, bool]:
        """Take the access back at the server and delete the file; tell whether there was one, and whether it was told.

        Raise TryRefused when the server can't be told; the file is deleted all the same.
        """
        file = TokenFile(self.address)
        told = False
        try:
            with told_plainly(self.address), contextlib.closing(Callback()) as callback:
                told = anyio.run(revoke, self._provider(file, callback))
        except TokenFileUnusable as error:
            self.say(error.public)  # nothing in such a file is sent anywhere
        except TryRefused as error:
            raise type(error)(f"{error.public} {FORGOTTEN}") from None
        finally:
            existed = file.remove()
        return existed, told

    def _run(self, task: Callable[[Client], Awaitable[T]]) -> T:
        async def main() -> T:
            async with self._client() as client:
                return await task(client)

        with told_plainly(self.address):
            return anyio.run(main)

    @contextlib.asynccontextmanager
    async def _client(self) -> AsyncIterator[Client]:
        with contextlib.closing(Callback()) as callback:
            async with connected(self._provider(TokenFile(self.address), callback), self.era) as client:
                yield client

    def _provider(self, file: TokenFile, callback: Callback) -> SignIn:
        return SignIn(file, callback, self.clock, self.say, browser=self.browser)


def plain_data(value: "Tool | CallToolResult") -> dict[str, Any]:
    """Give what the server sent, by the protocol's own names."""
    return value.model_dump(mode="json", by_alias=True, exclude_none=True)
