"""A host with the official Python client 1.x: signs in over a loopback callback, then answers one call a line."""

import asyncio
import json
import sys
from typing import Any
from urllib.parse import parse_qs, urlsplit

from mcp import ClientSession
from mcp.client.auth import OAuthClientProvider
from mcp.client.streamable_http import streamablehttp_client
from mcp.shared.auth import OAuthClientInformationFull, OAuthClientMetadata, OAuthToken


class Kept:
    """What the client stores, in memory."""

    tokens: OAuthToken | None = None
    client: OAuthClientInformationFull | None = None

    async def get_tokens(self) -> OAuthToken | None:
        return self.tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self.tokens = tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self.client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self.client = client_info


class Callback:
    """The loopback address that the browser is sent back to."""

    def __init__(self) -> None:
        self._arrived: asyncio.Future[tuple[str, str | None]] = asyncio.get_running_loop().create_future()

    async def listen(self) -> str:
        """Start to listen and return the address."""
        server = await asyncio.start_server(self._take, "127.0.0.1", 0)
        return f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/callback"

    async def result(self) -> tuple[str, str | None]:
        """Return code and state."""
        return await self._arrived

    async def _take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        query = parse_qs(urlsplit((await reader.readline()).split()[1].decode()).query)
        while (await reader.readline()).strip():
            pass
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        await writer.drain()
        writer.close()
        self._arrived.set_result((query["code"][0], query.get("state", [None])[0]))


async def show(link: str) -> None:
    """Give the link to the person."""
    print(f"Open {link}", file=sys.stderr, flush=True)


async def answer(session: ClientSession, method: str, params: dict[str, Any]) -> dict[str, Any]:
    """Do one call of the conversation."""
    if method == "tools/list":
        result: Any = await session.list_tools()
    else:
        result = await session.call_tool(params["name"], params["arguments"])
    return dict(result.model_dump(mode="json", by_alias=True, exclude_none=True))


async def main(mcp_url: str) -> None:
    """Connect, and answer until stdin ends."""
    callback = Callback()
    wanted = {"client_name": "Python SDK 1", "redirect_uris": [await callback.listen()]}
    metadata = OAuthClientMetadata.model_validate(wanted | {"token_endpoint_auth_method": "none"})
    auth = OAuthClientProvider(mcp_url, metadata, Kept(), show, callback.result)
    async with (
        streamablehttp_client(mcp_url, auth=auth) as (reading, writing, _),
        ClientSession(reading, writing) as session,
    ):
        await session.initialize()
        while line := await asyncio.to_thread(sys.stdin.readline):
            asked = json.loads(line)
            result = await answer(session, asked["method"], asked["params"])
            print(json.dumps({"id": asked["id"], "result": result}), flush=True)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
