"""The one HTTP client of `countersign try`: it goes only where it may, and reads only so much."""

from collections.abc import AsyncIterator

import httpx2

from cli.trying.addresses import host_of, may_lead
from cli.trying.refusals import AnswerUnusable, LedAstray

LARGEST_ANSWER = 16 * 1024 * 1024
SECONDS = 120.0
SECONDS_TO_CONNECT = 15.0


def http_client(server: str, auth: httpx2.Auth | None = None) -> httpx2.AsyncClient:
    """Give the client for everything that is sent for the sake of `server`, signing in and out included.

    Its requests raise LedAstray before a forbidden address is asked, and AnswerUnusable from an answer over the limit.
    """

    async def stay(request: httpx2.Request) -> None:
        if not may_lead(server, str(request.url)):
            raise LedAstray(f"{host_of(server)} leads to {host_of(str(request.url))}; nothing was sent there.")

    async def limit(response: httpx2.Response) -> None:
        # What is packed could grow beyond the limit while it is unpacked; it wasn't asked for.
        if response.headers.get("content-encoding", "identity").strip().lower() != "identity":
            raise AnswerUnusable(f"{host_of(server)} packs its answer, which nobody asked for.")
        if isinstance(response.stream, httpx2.AsyncByteStream):
            response.stream = _Limited(response.stream, server)

    return httpx2.AsyncClient(
        auth=auth,
        headers={"Accept-Encoding": "identity"},
        timeout=httpx2.Timeout(SECONDS, connect=SECONDS_TO_CONNECT),
        event_hooks={"request": [stay], "response": [limit]},
    )


class _Limited(httpx2.AsyncByteStream):
    def __init__(self, stream: httpx2.AsyncByteStream, server: str) -> None:
        self._stream, self._server = stream, server

    async def __aiter__(self) -> AsyncIterator[bytes]:
        count = 0
        async for part in self._stream:
            count += len(part)
            if count > LARGEST_ANSWER:
                raise AnswerUnusable(f"{host_of(self._server)} answers with more than {LARGEST_ANSWER >> 20} MB.")
            yield part

    async def aclose(self) -> None:
        await self._stream.aclose()
