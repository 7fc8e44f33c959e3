"""The codes that no class of ours has: of decisions, of runs, of OAuth, of JSON-RPC and of HTTP itself."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Code:
    """One stable code: where it is met, what it means and what its reader does about it."""

    code: str
    met: str
    meaning: str
    remedy: str


CALLS, RUNS, OAUTH, MCP, HTTP = "a call", "a run", "OAuth", "MCP (JSON-RPC)", "HTTP"
TERMINAL, LOG = "the terminal", "`client log`"

CODES = (
    Code(
        "internal",
        "everywhere",
        "A defect of ours; nothing of it is told.",
        "Find the lines of `reference` in the log, and report them.",
    ),
    Code(
        "not_allowed",
        CALLS,
        "The person's role can't hold what the flow needs, whatever is consented.",
        "Ask an administrator for another role, or somebody who has it.",
    ),
    Code(
        "four_eyes_unavailable",
        CALLS,
        "A machine asked for what somebody has to confirm; another person would have to, and can't be asked yet.",
        "Let a person's agent make this call.",
    ),
    Code(
        "insufficient_scope",
        CALLS,
        "This connection lacks a right that the person could give; `missingScopes` names it.",
        "Ask the person to add it on the page at `grantUrl`, then call again.",
    ),
    Code(
        "confirmation_not_needed",
        CALLS,
        "A confirmation was asked for a flow that only reads.",
        "Call the flow's own tool.",
    ),
    Code(
        "confirmation_missing",
        CALLS,
        "The phrase came without a token.",
        "Call without both to be told where the person decides.",
    ),
    Code(
        "confirmation_phrase",
        CALLS,
        "The token came without the phrase.",
        'Send confirmation="CONFIRM" with it, once the person has approved.',
    ),
    Code(
        "confirmation_mismatch",
        CALLS,
        "The token is unknown, another's, or for another call or other arguments: all alike.",
        "Call again with exactly the arguments that were confirmed, or without the token to ask anew.",
    ),
    Code(
        "confirmation_denied",
        CALLS,
        "The person said no; their note is in the sentence.",
        "Don't ask for the same again now; read the note.",
    ),
    Code(
        "too_many_confirmations",
        CALLS,
        "Ten calls of this connection wait for their person already.",
        "Let the person decide those first.",
    ),
    Code(
        "interrupted",
        RUNS,
        "The server stopped in the middle of the run; nothing was changed.",
        "Call again; the confirmation still stands until it expires.",
    ),
    Code(
        "unknown",
        RUNS,
        "The server stopped around a call to the outside, which may have taken place.",
        "Don't repeat it. The run page and traces_get say how to find out.",
    ),
    Code(
        "restored",
        RUNS,
        "A backup was restored that was made while this ran.",
        "Look whether anything left for the outside after the backup; the database is as it was then.",
    ),
    Code(
        "flow_failed",
        RUNS,
        "The flow failed in a way that its author declared without a code.",
        "Do what the sentence says; it is the application's own.",
    ),
    Code(
        "unauthorized",
        MCP,
        "No bearer token came with the request.",
        "Sign in by OAuth: the WWW-Authenticate header names where.",
    ),
    Code(
        "invalid_token",
        MCP,
        "The token is unknown, expired, taken back, or of another server.",
        "Refresh it, or connect again.",
    ),
    Code("parse_error", MCP, "The body is not valid JSON in UTF-8 (-32700).", "Send strict JSON."),
    Code(
        "method_not_found",
        MCP,
        "There is no such method in this revision (-32601).",
        "Take one that the server's capabilities name.",
    ),
    Code(
        "invalid_params",
        MCP,
        "The params don't have the shape of the method (-32602).",
        "Correct what the sentence names.",
    ),
    Code(
        "unknown_tool", MCP, "There is no tool by that name (-32602).", "Take a name from tools/list or manifest_get."
    ),
    Code("unknown_prompt", MCP, "There is no prompt by that name (-32602).", "Take a name from prompts/list."),
    Code(
        "header_mismatch",
        MCP,
        "A header doesn't say the same as the body (-32020).",
        "Send the header that the sentence names with the body's value.",
    ),
    Code(
        "missing_client_capability",
        MCP,
        "The tool needs a capability that the client hasn't declared (-32021).",
        "Use a client that has what `requiredCapabilities` names.",
    ),
    Code(
        "unsupported_protocol_version",
        MCP,
        "The revision isn't one of those in `supported` (-32022).",
        "Send one of those.",
    ),
    Code(
        "invalid_request",
        OAUTH,
        "The request can't be read: something is missing, doubled, or not of its form.",
        "Correct what the sentence names; on MCP it is the JSON-RPC error -32600.",
    ),
    Code(
        "invalid_client",
        OAUTH,
        "The client is not known here, or didn't prove itself.",
        "Register again, then connect.",
    ),
    Code(
        "invalid_grant",
        OAUTH,
        "The code or refresh token is unknown, used, expired or taken back.",
        "Connect again; of two processes with one token, only one may refresh it.",
    ),
    Code(
        "invalid_scope",
        OAUTH,
        "The scope has impossible characters, or is more than was granted.",
        "Ask for what was granted.",
    ),
    Code(
        "invalid_target", OAUTH, "`resource` names another server than this one.", "Send this server's base URL + /mcp."
    ),
    Code("unauthorized_client", OAUTH, "The client didn't register for this grant type.", "Register again with it."),
    Code(
        "unsupported_grant_type",
        OAUTH,
        "Only authorization_code and refresh_token are given.",
        "Use one of the two.",
    ),
    Code(
        "unsupported_response_type", OAUTH, "Only response_type=code is answered.", "Use the authorization code flow."
    ),
    Code(
        "authorization_pending",
        OAUTH,
        "The person has not typed or answered the device's code yet.",
        "Ask again later.",
    ),
    Code("slow_down", OAUTH, "The device asked again too soon.", "Wait 5 seconds longer from now on (RFC 8628 3.5)."),
    Code("expired_token", OAUTH, "The device code has expired.", "Begin again: show a new code."),
    Code("access_denied", OAUTH, "The person did not agree.", "Don't ask again by yourself; the person knows."),
    Code(
        "temporarily_unavailable",
        OAUTH,
        "The database has no time for this request now.",
        "Try again in a moment.",
    ),
    Code(
        "method_not_allowed",
        HTTP,
        "The address exists and doesn't take this method.",
        "Use one that the Allow header names.",
    ),
    Code(
        "unsupported_media_type",
        HTTP,
        "The body has a type that the address doesn't take.",
        "Send the type that the sentence names.",
    ),
    Code("request_timeout", HTTP, "The body didn't arrive in time.", "Send it again, in one go."),
    Code(
        "database_unavailable",
        TERMINAL,
        "The database can't be used; the sentence has its own first words.",
        "Look whether it runs and whether COUNTERSIGN_DATABASE_URL is right.",
    ),
    Code(
        "code_reused",
        LOG,
        "An authorization code came a second time: its connection was ended, since somebody else may hold it.",
        "Connect again; when it happens again, the client leaks codes or redeems them twice.",
    ),
    Code(
        "refresh_token_reused",
        LOG,
        "A replaced refresh token came again after its grace: its connection was ended, for it may be copied.",
        "Connect again; a client that keeps old tokens beside new ones causes it too.",
    ),
    Code(
        "other_address",
        LOG,
        "A replaced refresh token was repeated within its grace from another network address. Nothing was ended.",
        "Usual for hosted clients with many machines; for one on a person's computer, end the connection and look.",
    ),
)
