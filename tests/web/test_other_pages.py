"""Home, runs and flows: each person sees their own, a reviewer everybody's, nobody more."""

import re
from typing import Any

import pytest

from flows.caller import Role
from flows.envelope import Envelope
from policy.principal import Principal
from tests.web.house import PASSWORD, REFUND, House, Reader, path_of

PAGES = ("/", "/runs", "/flows", "/connections", "/docs/connect")


@pytest.fixture
def alice(house: House) -> Reader:
    return house.reader()


@pytest.fixture
def agent(house: House, alice: Reader) -> Principal:
    return house.agent(alice, REFUND, name="helper")


def refunded(house: House, reader: Reader, agent: Principal) -> Envelope:
    """Take one refund through question, approval and run."""
    call: dict[str, Any] = {"order_id": 1042, "reason": "The lid was broken"}
    asked = house.call(agent, "orders.refund", **call)
    reader.press(reader.open(path_of(asked)), "Approve", password=PASSWORD)
    return house.spend(agent, asked, "orders.refund", **call)


def test_home_says_what_waits_what_ran_and_who_is_connected(house: House, alice: Reader, agent: Principal) -> None:
    empty = house.reader("bob@example.test").open("/")
    asked = house.call(agent, "orders.refund", order_id=1042, reason="r")
    house.call(agent, "orders.list")

    page = alice.open("/")

    assert asked.waiting is not None
    assert page.link(asked.waiting.summary).attrs["href"] == path_of(asked)
    assert "15 min left" in page.text
    assert page.link("List orders")
    assert "reads, may ask to refund an order · last call just now" in page.text
    for words in ("Nothing. When an agent", "No runs yet", "No agent is connected"):
        assert words in empty.text
    assert asked.waiting.summary not in empty.text


def test_home_has_lines_to_paste_for_three_clients(alice: Reader) -> None:
    lines = [node.text() for node in alice.open("/").all("code")]

    assert lines == [
        "http://localhost:6535/mcp",
        "claude mcp add --transport http countersign http://localhost:6535/mcp",
        "codex mcp add countersign --url http://localhost:6535/mcp",
        """code --add-mcp '{"name":"countersign","type":"http","url":"http://localhost:6535/mcp"}'""",
    ]


def test_a_run_shows_its_steps_its_messages_and_its_confirmation(house: House, alice: Reader, agent: Principal) -> None:
    done = refunded(house, alice, agent)

    page = alice.open(f"/runs/{done.run_id}")

    for words in ("Refund an order", "Done", "Changed refunds", "Queued e-mail", "Will be sent", "The lid was broken"):
        assert words in page.text, page.text
    assert alice.open(page.link("See the confirmation").attrs["href"]).status == 200


def test_others_runs_are_unknown_except_to_those_who_review(house: House, alice: Reader, agent: Principal) -> None:
    done = refunded(house, alice, agent)
    path = f"/runs/{done.run_id}"

    bob, rita = house.reader("bob@example.test"), house.reader("rita@example.test", Role.REVIEWER)

    assert bob.open(path).status == bob.open("/runs/run_" + "0" * 32).status == 404
    assert "No runs yet" in bob.open("/runs").text
    assert "helper for alice@example.test" in rita.open("/runs").text
    assert "for alice@example.test" in rita.open(path).text
    assert "customer@" not in rita.open(path).text, "whom a message went to is the person's own business"


@pytest.mark.parametrize(
    "path", ["/runs/x", "/runs/run_", "/runs/..%2f..%2fetc", "/runs/run_%00", "/runs/run_" + "g" * 32]
)
def test_what_is_no_run_id_is_unknown(alice: Reader, path: str) -> None:
    assert alice.open(path).status == 404


def test_runs_come_in_pages_of_twenty_without_gaps(house: House, alice: Reader, agent: Principal) -> None:
    ran = [house.call(agent, "orders.list").run_id for _ in range(45)]
    seen: list[str] = []
    page = alice.open("/runs")
    for _ in range(3):
        seen += re.findall(r"/runs/(run_[0-9a-f]{32})\"", page.body)
        older = [node for node in page.all("a") if node.text() == "Older"]
        page = alice.open(older[0].attrs["href"]) if older else page

    assert len(seen) == 45
    assert set(seen) == set(ran)
    assert not older


def test_runs_are_narrowed_by_flow_and_outcome(house: House, alice: Reader, agent: Principal) -> None:
    house.call(agent, "orders.list")
    house.call(agent, "orders.get", order_id=999999)

    assert alice.open("/runs?flow=orders.list").text.count("Done") == 2  # the row, and the list of outcomes
    assert "No run fits" in alice.open("/runs?flow=orders.list&status=failed").text
    assert "No run fits" in alice.open("/runs?flow=no.such").text
    assert alice.open("/runs?status=nonsense").status == 400
    assert alice.open("/runs?before=nonsense").status == 400


def test_flows_say_what_they_touch_and_whether_the_reader_may(house: House, alice: Reader) -> None:
    vera = house.reader("vera@example.test", Role.VIEWER)

    mine, hers = alice.open("/flows"), vera.open("/flows")

    for words in ("Changes refunds", "Sends e-mail", "orders:refund", "By the person whose agent asks, for each call."):
        assert words in mine.text
    assert "Not with your role" not in mine.text
    assert hers.text.count("Not with your role") == 2


@pytest.mark.parametrize("path", [*PAGES, "/runs/run_0", "/connections/gr_0", "/confirmations/cf_0"])
def test_no_page_opens_without_a_session(house: House, path: str) -> None:
    answer = house.app.test_client().get(path)

    assert answer.status_code == 303
    assert answer.headers["Location"].startswith("/login")


def test_no_page_opens_for_a_bearer_token(house: House, alice: Reader) -> None:
    token = house.parts.local.issue("x", alice.email, ["mcp:flows:read"], house.settings.lifetimes.access_token).token
    for path in PAGES:
        answer = house.app.test_client().get(path, headers={"Authorization": f"Bearer {token}"})

        assert answer.status_code == 303


@pytest.mark.parametrize("path", PAGES)
def test_pages_hold_nothing_that_the_policy_forbids(alice: Reader, path: str) -> None:
    page = alice.open(path)

    assert "script-src 'self'" in page.headers["Content-Security-Policy"]
    assert page.headers["Cache-Control"] == "no-store"
    for node in page.root.walk():
        assert "style" not in node.attrs
        assert not any(name.startswith("on") for name in node.attrs)
        assert node.tag != "script" or node.attrs["src"].startswith("/static/")


def test_a_page_of_the_documentation_is_shown_as_it_is_written(alice: Reader) -> None:
    page = alice.open("/docs/connect")

    assert "# Connect a client" in page.text
    for path in ("/docs/no-such", "/docs/connect.md", "/docs/..%2fREADME", "/docs/decisions/0001-seams", "/docs/"):
        assert alice.open(path).status == 404


def test_an_unknown_address_is_a_page_with_a_reference(alice: Reader) -> None:
    page = alice.open("/no/such/page")

    assert page.status == 404
    assert "There is nothing here" in page.text
    assert page.headers["X-Request-Id"] in page.text
