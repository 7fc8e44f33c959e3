"""`countersign try` as a person uses it: in a terminal, against our server and against the official SDK's."""

import json
import os
import re
import shlex
import socket
import subprocess
import sys
import urllib.request

import pytest

from tests.support.browser import FormBrowser
from tests.support.process import guarded, stop
from tests.support.raw_mcp import RawMcp
from tests.support.server import ALICE, CLI, REPO, ServerProcess, clean_environment
from tests.support.tmux import terminal
from tests.support.waiting import free_port, wait_until

TRY = "countersign"
LINK = r"^ {4}(http://localhost:\d+/\S+)$"
ORDER = 1042


@pytest.fixture
def pane(tmp_path):
    """A terminal in which `countersign` is a command, in a folder without any installation and any settings."""
    programs = tmp_path / "bin"
    programs.mkdir()
    script = programs / TRY
    script.write_text(f'#!/bin/sh\nPYTHONPATH="{REPO}" exec {shlex.join(CLI)} "$@"\n')
    script.chmod(0o700)
    opener = programs / "opener"
    opener.write_text(f'#!/bin/sh\nprintf %s "$1" > {tmp_path}/opened\n')
    opener.chmod(0o700)
    own = {
        "PATH": f"{programs}:{os.environ['PATH']}",
        "XDG_STATE_HOME": str(tmp_path / "state"),
        "HOME": str(tmp_path),
        "TERM": "screen",
    }
    here = tmp_path / "here"
    here.mkdir()
    unwanted = ("BROWSER", "DISPLAY", "WAYLAND_DISPLAY", "NO_COLOR")
    kept = {name: value for name, value in clean_environment().items() if name not in unwanted}
    with terminal(kept | own, here) as one:
        yield one


@pytest.fixture(scope="module")
def server(new_instance):
    """A shop of these tests alone: order 1042 is still to be refunded."""
    with ServerProcess(new_instance(), workers=1) as running:
        yield running


@pytest.fixture
def alice(server):
    browser = FormBrowser(server.base_url)
    browser.sign_in(ALICE.email, ALICE.password)
    return browser


def page_of(address):
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(address, timeout=20) as answer:
        return answer.read().decode()


def sign_in(pane, browser, tick=("orders:refund",)):
    """Do what the terminal asks for, in the browser; give the page at the end."""
    address = pane.wait_for(LINK)[1]
    return page_of(browser.consent(address, tick=tick))


def kept_file(tmp_path):
    return next((tmp_path / "state").rglob("*.json"))


# --- our server -------------------------------------------------------------------------------------------------------


def test_the_first_ten_minutes_in_a_terminal(pane, server, alice, tmp_path):
    url = ("--url", server.mcp_url)
    pane.start(TRY, "try", "tools", *url)
    last_page = sign_in(pane, alice)
    tools = pane.ended()
    schema = pane.run(TRY, "try", "schema", "orders_refund", *url)
    order = pane.run(TRY, "try", "call", "orders_get", f"order_id={ORDER}", *url)

    assert "You can close this tab." in last_page
    assert tools[0] == 0
    assert re.search(r"^TOOL +KIND +WHAT IT DOES$", tools[1], re.M), tools[1]
    assert re.search(r"^orders_get +reads ", tools[1], re.M)
    assert re.search(r"^orders_refund +acts ", tools[1], re.M)
    assert re.search(r"^order_id +integer +yes ", schema[1], re.M)
    assert order[0] == 0
    assert re.search(rf"^ +number: {ORDER}$", order[1], re.M)
    assert kept_file(tmp_path).stat().st_mode & 0o777 == 0o600

    pane.start(TRY, "try", "call", "orders_refund", f"order_id={ORDER}", "reason=damaged", *url)
    link = pane.wait_for(LINK)[1]
    asked = pane.screen()
    alice.approve(link)
    refunded = pane.ended()

    assert f"order {ORDER}" in asked
    assert "nothing is done yet" in asked
    assert refunded[0] == 0, refunded[1]
    assert re.search(r"^status: done$", refunded[1], re.M)

    token = json.loads(kept_file(tmp_path).read_text())["tokens"]["access_token"]
    before = RawMcp(server.mcp_url, token).call("orders_get", {"order_id": ORDER}).status
    out = pane.run(TRY, "try", "sign-out", *url)

    assert (before, RawMcp(server.mcp_url, token).call("orders_get", {"order_id": ORDER}).status) == (200, 401)
    assert (out[0], "Signed out." in out[1]) == (0, True)
    assert list((tmp_path / "state").rglob("*.json")) == []


def test_a_wait_that_is_left_goes_on_and_a_no_is_a_no(pane, server, alice):
    url = ("--url", server.mcp_url, "--era", "legacy", "--no-browser")
    pane.start(TRY, "try", "call", "orders_list", "status=paid", *url)
    sign_in(pane, alice)
    listed = pane.ended()
    first, second = re.findall(r"^ +(\d{4}) ", listed[1], re.M)[:2]
    refund = (TRY, "try", "call", "orders_refund", "reason=damaged", *url)

    pane.start(*refund, f"order_id={first}")
    link = pane.wait_for(LINK)[1]
    pane.wait_for("Waiting for the approval")
    pane.press("C-c")
    left = pane.ended()
    alice.approve(link)
    went_on = pane.run(*refund, f"order_id={first}")
    pane.start(*refund, f"order_id={second}")
    alice.deny(pane.wait_for(LINK)[1], note="Not this one")
    denied = pane.ended()

    assert left[0] == 130
    assert "give the same command again" in left[1]
    assert "Traceback" not in left[1]
    assert went_on[0] == 0
    assert "Approved already: " in went_on[1]
    assert re.search(r"^status: done$", went_on[1], re.M)
    assert denied[0] == 3
    assert "countersign: not_confirmed: confirmation_denied: " in denied[1]
    assert "Not this one" in denied[1]


def test_the_installations_own_address_and_browser_are_used_and_json_is_alone_on_its_stream(
    pane, server, alice, tmp_path
):
    own = f"COUNTERSIGN_BASE_URL={server.base_url}"
    opened = tmp_path / "opened"
    pane.start("env", own, "BROWSER=opener", "sh", "-c", f"{TRY} try tools --json > ../tools.json")
    address = wait_until("the browser", lambda: opened.exists() and opened.read_text())
    page_of(alice.consent(address))
    status, screen = pane.ended()
    document = json.loads((tmp_path / "tools.json").read_text())

    assert status == 0
    assert address in screen
    assert document["url"] == server.mcp_url
    assert {"orders_get", "manifest_get"} <= {tool["name"] for tool in document["tools"]}


# --- the official SDK's server ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def example():
    """A function that starts the example server once, with or without sign-in, and gives its address."""
    started = {}

    def start(*words):
        if words not in started:
            port = free_port()
            command = [sys.executable, "-m", "tests.support.example_server", str(port), *words]
            process = subprocess.Popen(
                guarded(command),
                cwd=REPO,
                env=clean_environment(),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
            started[words] = (process, f"http://localhost:{port}/mcp")
            wait_until("the example server", lambda: is_listening(port), seconds=30)
        return started[words][1]

    yield start
    for process, _ in started.values():
        stop(process)


def is_listening(port):
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@pytest.mark.parametrize("era", ["auto", "legacy"])
def test_any_other_server_is_used_alike(pane, example, era):
    where = ("--url", example(), "--era", era)
    cities = pane.run(TRY, "try", "call", "cities", *where)
    picture = pane.run(TRY, "try", "call", "picture", *where)

    assert re.search(r"^ {2}name +people\n {2}Zürich +448664$", cities[1], re.M)
    assert (picture[0], "image, 12 kB" in picture[1]) == (0, True)


@pytest.mark.parametrize("era", ["auto", "legacy"])
def test_any_other_servers_sign_in_is_used_alike(pane, example, era, tmp_path):
    pane.start(TRY, "try", "call", "add", "a=1", "b:=2", "--url", example("--sign-in"), "--era", era)
    last_page = page_of(pane.wait_for(LINK)[1])
    added = pane.ended()

    assert "You can close this tab." in last_page
    assert added[0] == 0, added[1]
    assert re.search(r"^result: 3$", added[1], re.M)
    assert kept_file(tmp_path).stat().st_mode & 0o777 == 0o600


def test_a_sign_in_that_is_left_keeps_nothing(pane, example, tmp_path):
    pane.start(TRY, "try", "tools", "--url", example("--sign-in"))
    pane.wait_for("Waiting. Ctrl-C stops.")
    pane.press("C-c")
    left = pane.ended()

    assert (left[0], "Traceback" in left[1]) == (130, False)
    assert list(tmp_path.rglob("*.json")) == []
