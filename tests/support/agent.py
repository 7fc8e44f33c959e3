"""An agent with the official Python client, and a person with a form browser who answers for it."""

import contextlib
import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs, urlsplit

import anyio.to_thread
import jsonschema
import mcp_types as types
from anyio.from_thread import BlockingPortal, start_blocking_portal
from mcp.client import Client
from mcp.client.auth import OAuthClientProvider
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client
from mcp.shared.auth import AuthorizationCodeResult, OAuthClientInformationFull, OAuthClientMetadata, OAuthToken

from tests.support.browser import FormBrowser

REDIRECT_URI = "http://127.0.0.1:33418/callback"


class MemoryStorage:
    """Where the official client keeps its registration and tokens; every token it ever had is remembered."""

    def __init__(self) -> None:
        self.tokens: OAuthToken | None = None
        self.client_info: OAuthClientInformationFull | None = None
        self.seen: list[str] = []

    async def get_tokens(self) -> OAuthToken | None:
        return self.tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self.tokens = tokens
        self.seen += [token for token in (tokens.access_token, tokens.refresh_token) if token]

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self.client_info

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self.client_info = client_info


@dataclass(slots=True)
class BrowserPerson:
    """How the person behind the agent answers the consent page; change it to answer the next one otherwise."""

    browser: FormBrowser
    tick: Sequence[str] = ()
    untick: Sequence[str] = ()
    consents: int = 0
    authorize_url: str = ""
    callback_url: str = ""

    async def open(self, url: str) -> None:
        """Answer the consent page in a thread of its own, as a browser beside the client does."""
        self.authorize_url = url
        self.consents += 1
        self.callback_url = await anyio.to_thread.run_sync(
            lambda: self.browser.consent(url, tick=self.tick, untick=self.untick)
        )

    async def result(self) -> AuthorizationCodeResult:
        """Return what came back to the client's redirect address."""
        query = {name: values[0] for name, values in parse_qs(urlsplit(self.callback_url).query).items()}
        if "code" not in query:
            raise AssertionError(f"no code came back: {query}")
        return AuthorizationCodeResult(code=query["code"], state=query.get("state"), iss=query.get("iss"))


@dataclass(frozen=True, slots=True)
class Answer:
    """What a tool call gave: the data, the text, and whether it was an error."""

    is_error: bool
    data: dict[str, Any]
    text: str

    def __getitem__(self, name: str) -> Any:
        if name not in self.data:
            raise AssertionError(f"no {name!r} in {self.data}")
        return self.data[name]

    @property
    def status(self) -> str:
        """The status of a write tool's answer."""
        return str(self["status"])


class Agent:
    """The official client, called from a test that is not asynchronous."""

    def __init__(self, portal: BlockingPortal, client: Client, storage: MemoryStorage, person: BrowserPerson) -> None:
        self._portal, self.client, self.storage, self.person = portal, client, storage, person
        self._schemas: dict[str, dict[str, Any] | None] = {}

    @property
    def protocol_version(self) -> str:
        """The revision that client and server agreed on."""
        return self.client.protocol_version

    @property
    def instructions(self) -> str:
        """What the server tells the agent before anything else."""
        return self.client.instructions or ""

    @property
    def access_token(self) -> str:
        """The access token in use; for attack tests, which speak raw HTTP."""
        if self.storage.tokens is None:
            raise AssertionError("the client holds no tokens")
        return self.storage.tokens.access_token

    def tools(self) -> list[types.Tool]:
        """Return all pages of the tool list, asked for afresh."""
        found: list[types.Tool] = []
        cursor: str | None = None
        while True:
            page = self._portal.call(functools.partial(self.client.list_tools, cursor=cursor, cache_mode="refresh"))
            found += page.tools
            cursor = page.next_cursor
            if cursor is None:
                break
        self._schemas = {tool.name: tool.output_schema for tool in found}
        return found

    def ask(self, method: str, *given: Any, **named: Any) -> Any:
        """Call a method of the official client, e.g. `ask("read_resource", uri)`."""
        return self._portal.call(functools.partial(getattr(self.client, method), *given, **named))

    def call(self, name: str, arguments: dict[str, Any] | None = None, /, **more: Any) -> Answer:
        """Call a tool and return its answer, which must satisfy the output schema that the tool list shows."""
        given = {**(arguments or {}), **more}
        result = self._portal.call(functools.partial(self.client.call_tool, name, given))
        answer = Answer(bool(result.is_error), result.structured_content or {}, _text_of(result))
        self._check_schema(name, answer)
        return answer

    def _check_schema(self, name: str, answer: Answer) -> None:
        if not self._schemas:
            self.tools()
        schema = self._schemas.get(name)
        # A read tool's refusal is no result of its flow; a write tool's outcome object covers refusals as well.
        if schema is None or (answer.is_error and "status" not in schema.get("required", ())):
            return
        jsonschema.validate(answer.data, schema)


def _text_of(result: types.CallToolResult) -> str:
    return "\n".join(part.text for part in result.content if isinstance(part, types.TextContent))


@contextlib.contextmanager
def connect(
    mcp_url: str,
    browser: FormBrowser,
    *,
    mode: str = "auto",
    tick: Sequence[str] = (),
    untick: Sequence[str] = (),
    client_name: str = "Journey Agent",
    storage: MemoryStorage | None = None,
    redirect_uri: str = REDIRECT_URI,
    client_url: str | None = None,
) -> Iterator[Agent]:
    """Register (or name the metadata document), send the person to consent, and yield the connected agent."""
    storage = storage or MemoryStorage()
    person = BrowserPerson(browser, tick, untick)
    metadata = OAuthClientMetadata.model_validate(
        {"client_name": client_name, "redirect_uris": [redirect_uri], "token_endpoint_auth_method": "none"}
    )
    answers = (person.open, person.result)
    auth = OAuthClientProvider(mcp_url, metadata, storage, *answers, client_metadata_url=client_url)
    stack = contextlib.ExitStack()
    try:
        portal = stack.enter_context(start_blocking_portal())
        http_client = stack.enter_context(portal.wrap_async_context_manager(create_mcp_http_client(auth=auth)))
        client = Client(streamable_http_client(mcp_url, http_client=http_client), mode=mode)
        stack.enter_context(portal.wrap_async_context_manager(client))
        yield Agent(portal, client, storage, person)
    finally:
        # Not as a `with`: the test's own failure, thrown into the client's task groups, would come out as a group.
        stack.close()
