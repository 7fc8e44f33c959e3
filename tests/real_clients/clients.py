"""The real clients, and how each signs in and calls."""

import json
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from importlib.metadata import version
from typing import Any

from tests.conformance.suite import NODE
from tests.real_clients.install import HERE, MODULES, PYTHON, npm_version, python_version
from tests.real_clients.place import RIGHT, Place
from tests.real_clients.program import ClientBroke, Program
from tests.real_clients.table import RealClient, Tools
from tests.support.agent import Agent, connect
from tests.support.waiting import free_port

CODEX = MODULES / "@openai" / "codex" / "bin" / "codex.js"
INSPECTOR = MODULES / "@modelcontextprotocol" / "inspector" / "clients" / "launcher" / "build" / "index.js"
MCP_REMOTE = MODULES / "mcp-remote" / "dist" / "proxy.js"
PROGRAMS = HERE / "programs"
# Its model is never asked; where it looks for one all the same, it finds nobody.
CODEX_CONFIG = """
mcp_oauth_credentials_store = "file"
check_for_update_on_startup = false
model_provider = "nowhere"
[model_providers.nowhere]
name = "Nowhere"
base_url = "http://127.0.0.1:9"
[analytics]
enabled = false
"""


class Conversation:
    """The tools through a program that speaks JSON-RPC on its stdin and stdout."""

    def __init__(self, program: Program) -> None:
        self._program = program

    def names(self) -> list[str]:
        return [tool["name"] for tool in self._program.ask("tools/list", {})["tools"]]

    def call(self, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        result = self._program.ask("tools/call", {"name": name, "arguments": arguments})
        return structured(result)


@contextmanager
def own_program(command: list[str], place: Place) -> Iterator[Tools]:
    """A small host of ours around an official library."""
    with Program([*command, place.mcp_url], place) as program:
        program.sign_in()
        yield Conversation(program)


@contextmanager
def mcp_remote(place: Place) -> Iterator[Tools]:
    """The bridge; the test is the host that knows only stdio."""
    hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "host", "version": "1"}}
    command = [str(NODE), str(MCP_REMOTE), place.mcp_url, str(free_port())]
    with Program(command, place, MCP_REMOTE_CONFIG_DIR=str(place.home / "mcp-auth")) as program:
        program.sign_in()
        program.ask("initialize", hello)
        program.tell("notifications/initialized")
        yield Conversation(program)


class Inspector:
    """The Inspector's command line: one process for each call, the tokens kept in a file between them."""

    def __init__(self, place: Place, era: str) -> None:
        self._place, self._port, self._era = place, free_port(), era

    def command(self, method: str, *more: str) -> Program:
        """Start one call."""
        words = [str(NODE), str(INSPECTOR), "--cli", "--server-url", self._place.mcp_url, "--transport", "http"]
        words += ["--callback-url", f"http://127.0.0.1:{self._port}/oauth/callback", "--protocol-era", self._era]
        settings = {"MCP_AUTO_OPEN_ENABLED": "true", "MCP_INSPECTOR_SECRET_STORE": "file"}
        return Program([*words, "--format", "json", "--method", method, *more], self._place, **settings)

    def names(self) -> list[str]:
        with self.command("tools/list", "--stored-auth-only") as program:
            return [tool["name"] for tool in json.loads(program.finish())["result"]["tools"]]

    def call(self, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        words = ["--tool-name", name, "--tool-args-json", json.dumps(arguments), "--stored-auth-only"]
        with self.command("tools/call", *words) as program:
            return structured(json.loads(program.finish())["result"])


@contextmanager
def inspector(era: str, place: Place) -> Iterator[Tools]:
    """Sign in with the first call, and stay signed in for those that follow."""
    tools = Inspector(place, era)
    with tools.command("tools/list") as program:
        program.sign_in()
        program.finish()
    yield tools


class Codex:
    """Codex without its model: its app server lists and calls the tools of its MCP servers."""

    def __init__(self, program: Program, thread: str) -> None:
        self._program, self._thread = program, thread

    def names(self) -> list[str]:
        (found,) = self._program.ask("mcpServerStatus/list", {})["data"]
        return list(found["tools"])

    def call(self, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        asked = {"threadId": self._thread, "server": "countersign", "tool": name, "arguments": arguments}
        return structured(self._program.ask("mcpServer/tool/call", asked))


@contextmanager
def codex(place: Place) -> Iterator[Tools]:
    """`codex mcp add` prints the link and waits; `codex mcp list` says OAuth; then the app server."""
    folder = place.home / ".codex"
    folder.mkdir()
    (folder / "config.toml").write_text(CODEX_CONFIG)
    words = [str(NODE), str(CODEX)]
    # By registration: the other way has the server fetch a document from chatgpt.com.
    add = ["mcp", "add", "countersign", "--url", place.mcp_url, "--oauth-client-registration", "dcr"]
    with Program([*words, *add], place) as program:
        program.sign_in()
        program.finish()
    with Program([*words, "mcp", "list"], place) as program:
        if "OAuth" not in (listed := program.finish()):
            raise ClientBroke(f"codex mcp list doesn't say OAuth: {listed}")
    with Program([*words, "app-server"], place) as program:
        program.ask("initialize", {"clientInfo": {"name": "real-clients", "version": "1"}})
        program.tell("initialized")
        started = program.ask("thread/start", {"ephemeral": True, "cwd": str(place.home)})
        yield Codex(program, started["thread"]["id"])


class PythonSdk:
    """The official Python client 2.x, which the journeys use as well."""

    def __init__(self, agent: Agent, place: Place) -> None:
        self._agent, self._place = agent, place

    def names(self) -> list[str]:
        return [tool.name for tool in self._agent.tools()]

    def call(self, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        data = self._agent.call(name, arguments).data
        self._place.consents = self._agent.person.consents
        return data


@contextmanager
def python_sdk(place: Place) -> Iterator[Tools]:
    """In this process, its person answering by themselves."""
    with connect(place.mcp_url, place.browser, tick=(RIGHT,), client_name="Python SDK 2") as agent:
        place.note(agent.person.authorize_url)
        yield PythonSdk(agent, place)


def structured(result: dict[str, Any]) -> dict[str, Any]:
    """Return the structured content of a tool's result; raise ClientBroke when it is an error."""
    if result.get("isError") or "structuredContent" not in result:
        raise ClientBroke(f"no structured answer: {result}")
    return dict(result["structuredContent"])


def typescript(library: str, mode: str, place: Place) -> AbstractContextManager[Tools]:
    """The official TypeScript client of one major version."""
    return own_program([str(NODE), str(PROGRAMS / "typescript.mjs"), library, mode], place)


def python_sdk_1(place: Place) -> AbstractContextManager[Tools]:
    """The official Python client 1.x, in an environment of its own."""
    return own_program([str(PYTHON), str(PROGRAMS / "python_sdk_1.py")], place)


def _npm(package: str) -> Callable[[], str]:
    return partial(npm_version, package)


TYPESCRIPT_2, INSPECTOR_NAME = "@modelcontextprotocol/client", "@modelcontextprotocol/inspector"
CLIENTS = (
    RealClient("Codex", _npm("@openai/codex"), codex),
    RealClient("mcp-remote", _npm("mcp-remote"), mcp_remote),
    RealClient("TypeScript client, legacy", _npm(TYPESCRIPT_2), partial(typescript, "client", "legacy")),
    RealClient("TypeScript client, auto", _npm(TYPESCRIPT_2), partial(typescript, "client", "auto")),
    RealClient("TypeScript SDK 1", _npm("@modelcontextprotocol/sdk"), partial(typescript, "sdk", "legacy")),
    RealClient("Inspector --cli, legacy", _npm(INSPECTOR_NAME), partial(inspector, "legacy")),
    RealClient("Inspector --cli, modern", _npm(INSPECTOR_NAME), partial(inspector, "modern")),
    RealClient("Python SDK 2", partial(version, "mcp"), python_sdk),
    RealClient("Python SDK 1", python_version, python_sdk_1),
)
