"""What a hostile server, or a hostile program on this machine, can do to `countersign try`: be refused."""

import json
import os
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest
from click.testing import CliRunner

from cli.trying import sign_in, token_file
from cli.trying.addresses import may_lead, read_address
from cli.trying.callback import Callback
from cli.trying.command import command
from cli.trying.refusals import TokenFileUnusable, WrongAddress
from cli.trying.token_file import Kept, TokenFile
from tests.support.hostile_mcp import TOOL, hostile_mcp
from tests.support.listener import listening
from tests.support.server import CLI, REPO, clean_environment

EVIL = "a\x1b]0;owned\x07b\x9b31mc\rd\u202ee\x7ff"


@pytest.fixture
def hostile():
    with hostile_mcp() as server:
        yield server


@pytest.fixture(autouse=True)
def _state(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))


@pytest.fixture
def run(hostile):
    def once(*words):
        return CliRunner().invoke(command(), [words[0], "--url", hostile.url, "--era", "legacy", *words[1:]])

    return once


def is_harmless(text):
    return all(letter.isprintable() or letter == "\n" for letter in text)


# --- what it answers --------------------------------------------------------------------------------------------------


EACH = [
    (("tools",), 0),
    (("schema", EVIL), 0),
    (("call", EVIL), 1),
    (("call", EVIL, f"{EVIL}={EVIL}"), 1),
    (("call", EVIL, "b=1"), 2),
    (("schema", "x"), 2),
]


@pytest.mark.parametrize("as_json", [(), ("--json",)])
@pytest.mark.parametrize(("words", "status"), EACH)
def test_nothing_that_a_server_sends_reaches_the_terminal_alive(hostile, run, words, status, as_json):
    hostile.tools = [
        {
            "name": EVIL,
            "title": EVIL,
            "description": EVIL,
            "inputSchema": {"type": "object", "properties": {EVIL: {"description": EVIL}}},
        }
    ]
    hostile.result = {"content": [{"type": "text", "text": EVIL}], "structuredContent": {EVIL: EVIL}, "isError": True}
    done = run(*words, *as_json)

    assert done.exit_code == status, done.output
    assert is_harmless(done.output), ascii(done.output)
    if as_json:
        json.loads(done.stdout)


def test_an_error_of_the_server_is_one_harmless_line(hostile, run):
    data = {"grantUrl": f"https://x/{EVIL}", "secret": "not shown"}
    error = {"code": -32000, "message": f"{EVIL}\ncountersign: done: all is well", "data": data}
    hostile.say = lambda handler, message: (
        isinstance(message, dict)
        and message["method"] == "tools/call"
        and handler.json({"jsonrpc": "2.0", "id": message["id"], "error": error})
    )
    done = run("call", "tool")

    assert done.exit_code == 1
    assert done.stderr.startswith("countersign: server_refused: a")
    assert "grantUrl: https://x/" in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert is_harmless(done.output)


def test_an_answer_without_end_is_cut_off(hostile, run):
    def pour(handler, message):
        if not (isinstance(message, dict) and message["method"] == "tools/list"):
            return False
        handler.send_response(200)
        handler.send_header("Content-Type", "application/json")
        handler.end_headers()
        try:
            for _ in range(200):
                handler.wfile.write(b" " * 1024 * 1024)
        except OSError:
            stopped.append(True)
        return True

    stopped = []
    hostile.say = pour
    done = run("tools")

    assert (done.exit_code, done.stderr.split(": ")[1]) == (1, "answer_unusable")
    assert "more than 16 MB" in done.stderr
    assert stopped


def test_a_packed_answer_is_not_unpacked(hostile, run):
    hostile.say = lambda handler, message: handler.bytes(
        b"\x1f\x8b", Content_Type="application/json", Content_Encoding="gzip"
    )
    done = run("tools")

    assert (done.exit_code, done.stderr.split(": ")[1]) == (1, "answer_unusable")


@pytest.mark.parametrize("cursors", ["same", "fresh"])
def test_a_list_without_end_is_left(hostile, run, cursors):
    def page(handler, message):
        if not (isinstance(message, dict) and message["method"] == "tools/list"):
            return False
        count.append(1)
        result = {"tools": [TOOL], "nextCursor": "same" if cursors == "same" else str(len(count))}
        return handler.json({"jsonrpc": "2.0", "id": message["id"], "result": result})

    count = []
    hostile.say = page
    done = run("tools")

    assert (done.exit_code, done.stderr.split(": ")[1]) == (1, "answer_unusable")
    assert len(count) == (2 if cursors == "same" else 100)


def test_a_redirect_to_another_server_is_not_followed(hostile, run):
    with listening() as elsewhere:
        hostile.say = lambda handler, _message: handler.bytes(b"", 307, Location=elsewhere.url)
        done = run("call", "tool", "x=secret")

    assert done.exit_code == 1
    assert "not followed" in done.stderr
    assert elsewhere.cookies == []


@pytest.mark.parametrize(
    "body", [b"", b"not json", b"{}", b'{"jsonrpc":"2.0","id":1,"result":{"tools":5}}', b"[" * 5000]
)
def test_what_is_no_mcp_is_said_in_one_line(hostile, run, body):
    hostile.say = lambda handler, message: handler.bytes(body, Content_Type="application/json")
    done = run("tools")

    assert done.exit_code == 1
    assert len(done.stderr.splitlines()) == 1


def test_a_result_that_breaks_its_own_schema_is_refused(hostile, run):
    hostile.tools = [{**TOOL, "outputSchema": {"type": "object", "properties": {"n": {"type": "integer"}}}}]
    hostile.result = {"content": [], "structuredContent": {"n": EVIL}}
    done = run("call", "tool")

    assert (done.exit_code, done.stderr.split(": ")[1]) == (1, "answer_unusable")
    assert is_harmless(done.stderr)


def test_arguments_come_from_standard_input_and_only_so_many(hostile):
    words = ["call", "tool", "--url", hostile.url, "--era", "legacy", "--args", "-"]
    done = CliRunner().invoke(command(), words, input='{"x": "1"}')
    flood = CliRunner().invoke(command(), words, input='{"x": "' + "1" * 2_000_000 + '"}')

    assert (done.exit_code, flood.exit_code) == (0, 2)
    assert [call["arguments"] for call in hostile.calls] == [{"x": "1"}]


# --- a confirmation ---------------------------------------------------------------------------------------------------

WRITE = {
    "name": "write",
    "inputSchema": {"type": "object", "properties": {"x": {"type": "string"}, "confirmToken": {}, "confirmation": {}}},
}
STATUS = {
    "name": "action_confirm",
    "inputSchema": {"type": "object", "properties": {"confirmationId": {"type": "string"}}},
}
ASKED = {
    "status": "confirmation_required",
    "confirmationId": "cf_1",
    "confirmToken": "token-1",
    "confirmUrl": f"http://localhost/{EVIL}",
    "summary": f"Refund {EVIL}\nApproved.",
}


@pytest.fixture
def confirming(hostile, monkeypatch):
    """Let the hostile server ask for a confirmation and answer each question about it from a list."""
    monkeypatch.setattr("cli.trying.confirming.FIRST_PAUSE", 0.01)

    def script(*statuses, last):
        answers = iter(statuses)

        def result(params):
            if params["name"] == "action_confirm":
                data = {**ASKED, **next(answers)}
            else:
                data = last if "confirmToken" in params["arguments"] else ASKED
            error = data["status"] == "refused"
            return {"content": [], "structuredContent": data, "isError": error}

        hostile.tools, hostile.result = [WRITE, STATUS], result

    return script


def test_a_confirmed_call_sends_the_same_arguments_with_the_newest_token(hostile, run, confirming):
    approved = {"status": "confirmation_approved", "confirmToken": "token-2"}
    confirming({"status": "confirmation_pending"}, approved, last={"status": "done"})
    done = run("call", "write", "x=1")

    assert done.exit_code == 0
    assert done.stdout == "status: done\n"
    assert "    Refund a" in done.stderr
    assert is_harmless(done.output)
    assert hostile.calls[-1]["arguments"] == {"x": "1", "confirmToken": "token-2", "confirmation": "CONFIRM"}


@pytest.mark.parametrize("code", ["confirmation_denied", "confirmation_expired"])
def test_a_no_is_told_and_nothing_is_called(hostile, run, confirming, code):
    confirming({"status": "refused", "refusal": {"code": code, "message": f"no {EVIL}"}}, last={"status": "done"})
    done = run("call", "write", "--json")

    assert done.exit_code == 3
    assert json.loads(done.stdout)["error"]["code"] == "not_confirmed"
    assert done.stderr.splitlines()[-1].startswith(f"countersign: not_confirmed: {code}: no a")
    assert [one["name"] for one in hostile.calls] == ["write", "action_confirm"]


def test_another_refusal_meanwhile_is_the_servers_last_word(hostile, run, confirming):
    refusal = {"code": "confirmation_spent", "message": "used"}
    confirming({"status": "refused", "refusal": refusal}, last={"status": "done"})

    assert run("call", "write").exit_code == 1
    assert len(hostile.calls) == 2


def test_a_server_that_asks_again_after_the_approval_isnt_followed_in_circles(hostile, run, confirming):
    confirming({"status": "confirmation_approved"}, last=ASKED)
    done = run("call", "write")

    assert done.exit_code == 3
    assert len(hostile.calls) == 3


def test_a_server_of_another_make_just_gets_the_call(hostile, run):
    hostile.tools = [TOOL]
    hostile.result = {"content": [], "structuredContent": ASKED}
    done = run("call", "tool", "x=1")

    assert done.exit_code == 3
    assert [one["name"] for one in hostile.calls] == ["tool"]


# --- signing in -------------------------------------------------------------------------------------------------------


class Person:
    """In place of a browser: remembers what was opened, and comes back with an answer."""

    def __init__(self):
        self.opened = []
        self.answer = lambda asked: {"code": "code", "state": asked["state"]}
        self.statuses = []

    def open(self, address):
        self.opened.append(address)
        asked = {name: values[0] for name, values in parse_qs(urlsplit(address).query).items()}
        answers = self.answer(asked)
        threading.Thread(target=self._come_back, args=(asked["redirect_uri"], answers), daemon=True).start()
        return True

    def _come_back(self, uri, answers):
        for fields in answers if isinstance(answers, list) else [answers]:
            self.statuses.append(visit(f"{uri}?{urlencode(fields)}")[0])


def visit(address):
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(address, timeout=10) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


@pytest.fixture
def person(monkeypatch):
    one = Person()
    monkeypatch.setattr(sign_in, "open_page", one.open)
    monkeypatch.setattr(sign_in, "SECONDS_TO_SIGN_IN", 5.0)
    return one


@pytest.fixture
def authorizing(hostile):
    """Let the hostile server ask for a sign-in that it serves itself, with whatever a test changes in it."""

    def script(*, takes_token=True, resource=None, **changed):
        origin = hostile.origin
        metadata = {
            "issuer": origin,
            "authorization_endpoint": f"{origin}/authorize",
            "token_endpoint": f"{origin}/token",
            "registration_endpoint": f"{origin}/register",
            "revocation_endpoint": f"{origin}/revoke",
            "code_challenge_methods_supported": ["S256"],
            "authorization_response_iss_parameter_supported": True,
        } | changed
        protected = {"resource": hostile.url, "authorization_servers": [origin]} | (resource or {})

        token = {"access_token": "at", "refresh_token": "rt", "token_type": "Bearer", "expires_in": 3600}
        pages = {"/register": {"client_id": "c1"}, "/token": token, "/revoke": {}}

        def say(handler, message):
            if handler.path.startswith("/.well-known/oauth-protected-resource"):
                return handler.json(protected)
            if handler.path.startswith("/.well-known/"):
                return handler.json(metadata)
            if handler.path in pages:
                return handler.json(pages[handler.path])
            given = takes_token and handler.headers.get("Authorization") == "Bearer at"
            return handler.path == "/mcp" and not given and handler.bytes(b"", 401, WWW_Authenticate="Bearer")

        hostile.say = say

    return script


def good(hostile):
    return lambda asked: {"code": "code", "state": asked["state"], "iss": hostile.origin}


def test_a_sign_in_is_kept_in_a_private_file_and_taken_back_with_it(hostile, run, authorizing, person, tmp_path):
    authorizing()
    person.answer = good(hostile)
    first, second = run("tools"), run("tools")
    file = next(tmp_path.rglob("*.json"))
    mode, folder_mode = file.stat().st_mode & 0o777, file.parent.stat().st_mode & 0o777
    out = run_sign_out(hostile)

    assert (first.exit_code, second.exit_code, len(person.opened)) == (0, 0, 1), first.output + second.output
    assert (mode, folder_mode) == (0o600, 0o700)
    assert "code_challenge_method=S256" in person.opened[0]
    assert (out.exit_code, out.stdout) == (0, "Signed out.\n")
    assert "token=rt" in next(message for _, path, message in hostile.asked if path == "/revoke")
    assert not file.exists()
    assert "You weren't signed in." in run_sign_out(hostile).stdout


def run_sign_out(hostile):
    return CliRunner().invoke(command(), ["sign-out", "--url", hostile.url])


def test_wrong_answers_at_the_callback_are_turned_away_and_the_right_one_counts_once(hostile, run, authorizing, person):
    authorizing()
    right = good(hostile)
    person.answer = lambda asked: [
        {"code": "stolen", "state": "guessed", "iss": hostile.origin},
        {"error": "access_denied", "state": "guessed"},
        {"code": "stolen"},
        [("code", "stolen"), ("state", asked["state"]), ("state", asked["state"])],
        right(asked),
    ]
    done = run("tools")
    token_request = next(message for _, path, message in hostile.asked if path == "/token")

    assert done.exit_code == 0, done.output
    assert person.statuses == [400, 400, 400, 400, 200]
    assert "code=code" in token_request
    assert "stolen" not in token_request


@pytest.mark.parametrize("iss", ["http://localhost:1", "https://accounts.example", None])
def test_an_answer_of_another_issuer_is_refused(hostile, run, authorizing, person, iss):
    authorizing()
    person.answer = lambda asked: {"code": "code", "state": asked["state"]} | ({"iss": iss} if iss else {})
    done = run("tools")

    assert (done.exit_code, done.stderr.splitlines()[-1].split(": ")[1]) == (4, "sign_in_failed")
    assert all(path != "/token" for _, path, _ in hostile.asked)


def test_a_persons_no_is_said(hostile, run, authorizing, person):
    authorizing()
    person.answer = lambda asked: {"error": "access_denied", "error_description": EVIL, "state": asked["state"]}
    done = run("tools", "--json")

    assert done.exit_code == 4
    assert "sign_in_failed: The sign-in ended without access: access_denied a" in done.stderr
    assert json.loads(done.stdout)["error"]["code"] == "sign_in_failed"
    assert is_harmless(done.output)


def test_a_server_that_refuses_its_own_token_asks_the_person_once(hostile, run, authorizing, person):
    authorizing(takes_token=False)
    person.answer = good(hostile)
    done = run("tools")

    assert (done.exit_code, done.stderr.splitlines()[-1].split(": ")[1]) == (4, "sign_in_failed")
    assert len(person.opened) == 1


def test_a_sign_in_without_pkce_is_not_begun(hostile, run, authorizing, person):
    authorizing(code_challenge_methods_supported=["plain"])
    done = run("tools")

    assert (done.exit_code, person.opened) == (4, [])
    assert "PKCE" in done.stderr


@pytest.mark.parametrize("where", ["http://169.254.169.254/latest", "http://attacker.example/"])
def test_an_authorization_server_in_a_forbidden_place_is_not_asked(hostile, run, authorizing, person, where):
    authorizing(resource={"authorization_servers": [where]})
    done = run("tools")

    assert (done.exit_code, done.stderr.split(": ")[1]) == (4, "led_astray")
    assert person.opened == []
    assert len(done.stderr.splitlines()) == 1


def test_a_challenge_that_points_elsewhere_is_not_followed(hostile, run, person):
    challenge = 'Bearer resource_metadata="http://169.254.169.254/latest/meta-data"'
    hostile.say = lambda handler, _message: handler.bytes(b"", 401, WWW_Authenticate=challenge)
    done = run("tools")

    assert (done.exit_code, done.stderr.split(": ")[1]) == (4, "led_astray")
    assert person.opened == []


def test_a_sign_in_page_in_a_forbidden_place_is_not_opened(hostile, run, authorizing, person):
    authorizing(authorization_endpoint="http://attacker.example/authorize")
    done = run("tools")

    assert (done.exit_code, done.stderr.splitlines()[-1].split(": ")[1]) == (4, "led_astray")
    assert person.opened == []


def test_a_page_of_another_host_is_named_and_left_to_the_person(hostile, run, authorizing, person, monkeypatch):
    monkeypatch.setattr(sign_in, "SECONDS_TO_SIGN_IN", 0.1)
    authorizing(authorization_endpoint="https://accounts.example/authorize")
    done = run("tools")

    assert done.exit_code == 4
    assert person.opened == []
    assert "localhost has its sign-in at accounts.example. If that's right:" in done.stderr
    assert "https://accounts.example/authorize?response_type=code" in done.stderr


def test_what_has_ended_is_refreshed_where_it_was_given_and_without_the_person(hostile, run, authorizing, person):
    authorizing(token_endpoint=f"{hostile.origin}/token")
    person.answer = good(hostile)
    run("tools")
    file = TokenFile(hostile.url)
    kept = file.read()
    kept.expires_at = 1.0
    file.write(kept)
    done = run("tools")

    assert (done.exit_code, len(person.opened)) == (0, 1)
    assert "grant_type=refresh_token" in [message for _, path, message in hostile.asked if path == "/token"][-1]
    assert file.read().expires_at > 1.0


def test_a_server_that_cannot_be_told_is_no_reason_to_keep_the_file(hostile, run, authorizing, person):
    authorizing()
    person.answer = good(hostile)
    run("tools")
    hostile.say = lambda handler, _message: handler.bytes(b"", 500)
    out = run_sign_out(hostile)

    assert out.exit_code == 4
    assert "The file here is deleted" in out.stderr
    assert not TokenFile(hostile.url).path.exists()


# --- this machine -----------------------------------------------------------------------------------------------------


def test_the_callback_answers_nobody_before_it_waits_and_shows_nothing_of_the_request():
    callback = Callback()
    try:
        callback.expect("right")
        missed = visit(f"{callback.uri}?state=%3Cscript%3E&code=1")
        elsewhere = visit(callback.uri.replace("/callback", "/other?state=right&code=1"))
        taken = visit(f"{callback.uri}?state=right&code=1&x=%3Cscript%3E")
        again = visit(f"{callback.uri}?state=right&code=2")
    finally:
        callback.close()

    assert [status for status, _ in (missed, elsewhere, taken, again)] == [400, 404, 200, 400]
    assert "You can close this tab." in taken[1]
    assert all("<script" not in page for _, page in (missed, elsewhere, taken, again))


def test_the_callback_listens_on_this_machine_alone():
    callback = Callback()
    callback.close()

    assert callback.uri.startswith("http://127.0.0.1:")


@pytest.fixture
def file(tmp_path):
    one = TokenFile("http://localhost/mcp", tmp_path / "state")
    one.write(Kept(address=one.address, expires_at=5.0))
    return one


def test_what_is_kept_comes_back(file):
    assert file.read().expires_at == 5.0
    assert TokenFile("http://localhost/other", file.path.parent).read() == Kept(address="http://localhost/other")


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o666])
def test_a_file_that_others_can_read_is_refused(file, mode):
    file.path.chmod(mode)

    with pytest.raises(TokenFileUnusable, match="isn't private"):
        file.read()


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"address": 5}', b"\xff", b" " * 300_000])
def test_a_damaged_file_is_said(file, content):
    file.path.write_bytes(content)

    with pytest.raises(TokenFileUnusable, match="is damaged"):
        file.read()


def test_a_file_of_another_server_is_refused(file):
    TokenFile("http://localhost/other", file.path.parent).path.write_bytes(file.path.read_bytes())
    other = TokenFile("http://localhost/other", file.path.parent)
    other.path.chmod(0o600)

    with pytest.raises(TokenFileUnusable, match="another server"):
        other.read()


@pytest.mark.parametrize("kind", ["link", "fifo", "folder"])
def test_what_is_no_plain_file_is_refused(file, kind):
    real = file.path.rename(file.path.with_name("real"))
    {
        "link": lambda: file.path.symlink_to(real),
        "fifo": lambda: os.mkfifo(file.path, 0o600),
        "folder": file.path.mkdir,
    }[kind]()

    with pytest.raises(TokenFileUnusable):
        file.read()


def test_a_write_that_fails_leaves_the_earlier_file(file, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("cli.instance.os.fsync", full)

    with pytest.raises(TokenFileUnusable):
        file.write(Kept(address=file.address, expires_at=6.0))
    assert file.read().expires_at == 5.0


def test_the_state_folder_is_the_persons_own(monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", "relative")
    monkeypatch.setenv("HOME", "/home/ada")

    assert str(token_file.state_folder()) == "/home/ada/.local/state/countersign/try"


def test_a_damaged_file_stops_a_command_and_sign_out_removes_it(hostile, run):
    path = TokenFile(hostile.url).path
    path.parent.mkdir(parents=True)
    path.write_text("{")
    path.chmod(0o600)
    stopped, out = run("tools"), run_sign_out(hostile)

    assert (stopped.exit_code, stopped.stderr.split(": ")[1]) == (4, "token_file_unusable")
    assert (out.exit_code, path.exists()) == (0, False)
    assert hostile.asked == []


@pytest.mark.parametrize(
    ("server", "target", "allowed"),
    [
        ("https://a.example/mcp", "https://a.example/x", True),
        ("https://a.example/mcp", "https://a.example:443/x", True),
        ("https://a.example/mcp", "https://login.example/x", True),
        ("https://a.example/mcp", "http://a.example/x", False),
        ("https://a.example/mcp", "http://login.example/x", False),
        ("https://a.example/mcp", "http://localhost:8080/x", False),
        ("https://a.example/mcp", "https://localhost/x", False),
        ("https://a.example/mcp", "https://127.0.0.1/x", False),
        ("https://a.example/mcp", "https://[::1]/x", False),
        ("https://a.example/mcp", "https://[::ffff:127.0.0.1]/x", False),
        ("https://a.example/mcp", "https://169.254.169.254/x", False),
        ("https://a.example/mcp", "https://10.1.2.3/x", False),
        ("https://a.example/mcp", "https://user@login.example/x", False),
        ("https://a.example/mcp", "javascript:alert(1)", False),
        ("https://a.example/mcp", "file:///etc/passwd", False),
        ("https://10.0.0.1/mcp", "https://10.0.0.2/x", True),
        ("http://localhost:6535/mcp", "http://localhost:6535/x", True),
        ("http://localhost:6535/mcp", "http://127.0.0.1:9000/x", True),
        ("http://localhost:6535/mcp", "https://login.example/x", True),
        ("http://localhost:6535/mcp", "http://169.254.169.254/x", False),
        ("http://inside/mcp", "http://inside/mcp", True),
    ],
)
def test_where_a_server_may_send_its_client(server, target, allowed):
    assert may_lead(server, target) is allowed


@pytest.mark.parametrize(
    "text",
    ["", "localhost:6535", "ftp://x/", "http://", "https://u:p@x/", "http://x/#y", "http://x/\x1b", "http://x:99999/"],
)
def test_an_address_that_is_none_is_refused(text):
    with pytest.raises(WrongAddress):
        read_address(text)


def test_a_token_is_never_sent_in_the_clear(hostile, run, authorizing, person, monkeypatch):
    monkeypatch.setattr("cli.trying.addresses.is_loopback", lambda host: False)
    authorizing()
    done = run("tools")

    assert (done.exit_code, person.opened) == (4, [])
    assert "plain http" in done.stderr


def test_files_beside_the_client_are_not_run(tmp_path):
    for name in ("mcp", "anyio", "httpx"):
        (tmp_path / f"{name}.py").write_text("import os; os.write(1, b'ran a file of the folder'); os._exit(9)")
    command = [sys.executable, "-P", *CLI[1:], "try", "tools", "--url", "http://127.0.0.1:9/mcp"]
    environment = clean_environment() | {"XDG_STATE_HOME": str(tmp_path / "state"), "PYTHONPATH": str(REPO)}

    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)

    assert "ran a file" not in done.stdout
    assert done.returncode == 4
