"""What `countersign try` refuses, each with the exit status that scripts see.

TryRefused                                   1  the tool or the server said no
├── ServerRefused        server_refused      1
├── AnswerUnusable       answer_unusable     1
├── NoSuchTool           no_such_tool        2
├── WrongArguments       wrong_arguments     2
├── WrongAddress         wrong_address       2
├── NotConfirmed         not_confirmed       3
├── Unreachable          unreachable         4
├── SignInFailed         sign_in_failed      4
├── LedAstray            led_astray          4
└── TokenFileUnusable    token_file_unusable 4
"""

from typing import ClassVar

from core.errors import AppError

INTERRUPTED = 130


class TryRefused(AppError):
    """`countersign try` can't go on."""

    code = "try_refused"
    status = 400
    remedy = "Read the sentence beside the code; it names what is wrong."
    exit_code: ClassVar[int] = 1


class ServerRefused(TryRefused):
    """The MCP server answered a request of `countersign try` with an error of the protocol."""

    code = "server_refused"
    status = 502
    remedy = "The sentence is the server's own; do what it says, or ask whoever runs that server."


class AnswerUnusable(TryRefused):
    """The MCP server's answer is too large, endless or not what the protocol or the tool's own schema says."""

    code = "answer_unusable"
    status = 502
    remedy = "Ask for less, or tell whoever runs that server what is wrong with its answer."


class NoSuchTool(TryRefused):
    """The server lists no tool by that name to this connection."""

    code = "no_such_tool"
    status = 404
    remedy = "`countersign try tools` lists the names; a right that this connection lacks hides its tools."
    exit_code = 2


class WrongArguments(TryRefused):
    """The arguments given to `countersign try call` don't fit the tool; nothing was sent."""

    code = "wrong_arguments"
    remedy = "`countersign try schema TOOL` shows the names and types."
    exit_code = 2


class WrongAddress(TryRefused):
    """The address given to `countersign try` can't be an MCP server's."""

    code = "wrong_address"
    remedy = "Give the address that the server prints, like https://app.example.com/mcp."
    exit_code = 2


class NotConfirmed(TryRefused):
    """No person confirmed the call: it was denied, or the time for it ran out; nothing was changed."""

    code = "not_confirmed"
    status = 403
    remedy = "Talk to the person who decides; the same command asks anew."
    exit_code = 3


class Unreachable(TryRefused):
    """The MCP server, or the server that signs people in for it, doesn't answer."""

    code = "unreachable"
    status = 502
    remedy = "Check the address, and whether the server runs."
    exit_code = 4


class SignInFailed(TryRefused):
    """Signing in through the browser didn't end with access."""

    code = "sign_in_failed"
    status = 401
    remedy = "Run the command again; `countersign try sign-out` first forgets what was kept."
    exit_code = 4


class LedAstray(TryRefused):
    """The MCP server sent its client to an address where a server of its place has nothing to send anybody."""

    code = "led_astray"
    status = 502
    remedy = "Don't use that server before whoever runs it has explained the address."
    exit_code = 4


class TokenFileUnusable(TryRefused):
    """The file with the tokens of `countersign try` is damaged, not private, or can't be read or written."""

    code = "token_file_unusable"
    status = 500
    remedy = "`countersign try sign-out` removes it; the next command signs in again."
    exit_code = 4
