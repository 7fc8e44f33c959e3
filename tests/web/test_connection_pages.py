"""What a person's agents may do: seen, changed with a proof, ended at once."""

import pytest

from flows.caller import Role
from policy.principal import Principal
from tests.support.html import NotOnPage
from tests.web.house import PASSWORD, REFUND, STOCK, House, Reader


@pytest.fixture
def alice(house: House) -> Reader:
    return house.reader()


@pytest.fixture
def agent(house: House, alice: Reader) -> Principal:
    return house.agent(alice, name="helper")


def page_of(agent: Principal) -> str:
    """Give the path of the page of the agent's grant."""
    return f"/connections/{agent.caller.grant_id}"


def scopes_of(house: House, agent: Principal) -> set[str]:
    """Give what the grant holds."""
    return set(house.parts.connections.get(agent.caller.operator_id, agent.caller.grant_id).scopes)


def test_connections_stand_under_their_program_with_what_they_may_and_when_they_called(
    house: House, alice: Reader, agent: Principal
) -> None:
    house.agent(alice, REFUND, name="helper")
    house.call(agent, "orders.list")
    house.clock.move(minutes=5)

    page = alice.open("/connections")

    assert [node.text() for node in page.all("h2")] == ["helper", "Connect an agent"]
    assert page.text.count("See past runs") == 2
    assert page.text.count("Ask to refund an order") == 1
    assert "last call 5 min ago" in page.text
    assert "no call yet" in page.text
    assert page.button("End access of helper (connection 2)")


def test_a_right_is_added_with_the_password_and_counts_at_once(house: House, alice: Reader, agent: Principal) -> None:
    page = alice.open(f"{page_of(agent)}?add={STOCK}")
    marked = page.tick_box(STOCK)

    saved = alice.press(page, "Save", password=PASSWORD)

    assert marked.has("checked")
    assert "asked for" in page.text.lower()
    assert "Saved" in saved.text
    assert scopes_of(house, agent) >= {STOCK, "mcp:action:invoke"}


def test_opening_the_address_gives_nothing(house: House, alice: Reader, agent: Principal) -> None:
    before = scopes_of(house, agent)

    alice.open(f"{page_of(agent)}?add={STOCK}&add={REFUND}&scope={STOCK}&password={PASSWORD}&saved=1")

    assert scopes_of(house, agent) == before


@pytest.mark.parametrize("password", ["", "wrong"])
def test_without_the_password_nothing_is_added_and_the_ticks_are_kept(
    house: House, alice: Reader, agent: Principal, password: str
) -> None:
    before = scopes_of(house, agent)

    answer = alice.press(alice.open(f"{page_of(agent)}?add={STOCK}"), "Save", password=password)

    assert answer.status == 403
    assert answer.tick_box(STOCK).has("checked")
    assert answer.control("Your password").attrs["aria-invalid"] == "true"
    assert scopes_of(house, agent) == before


@pytest.mark.parametrize("wanted", ["console:flows:invoke", "mcp:*", "console:*", "no:such", "<script>", "🙂"])
def test_what_nobody_can_consent_to_is_neither_offered_nor_given(
    house: House, alice: Reader, agent: Principal, wanted: str
) -> None:
    before = scopes_of(house, agent)
    page = alice.open(f"{page_of(agent)}?add={wanted}")

    alice.press(page, "Save", password=PASSWORD, scope=[*sorted(before), wanted])

    assert "your role can’t give" in page.text
    assert wanted not in page.text
    with pytest.raises(NotOnPage):
        page.tick_box(wanted)
    assert scopes_of(house, agent) == before


def test_a_viewer_can_give_nothing_that_acts(house: House) -> None:
    vera = house.reader("vera@example.test", Role.VIEWER)
    agent = house.agent(vera)
    page = vera.open(f"{page_of(agent)}?add={REFUND}")

    vera.press(page, "Save", password=PASSWORD, scope=["mcp:flows:read", REFUND])

    assert "your role can’t give" in page.text
    assert scopes_of(house, agent) == {"mcp:flows:read"}


def test_nothing_ticked_is_no_connection(house: House, alice: Reader, agent: Principal) -> None:
    before = scopes_of(house, agent)

    answer = alice.press(alice.open(page_of(agent)), "Save", password=PASSWORD, scope=[])

    assert answer.status == 400
    assert "at least one right" in answer.text
    assert scopes_of(house, agent) == before


def test_ending_access_takes_one_click_and_counts_at_once(house: House, alice: Reader, agent: Principal) -> None:
    token = house.parts.local.issue("other", alice.email, ["mcp:flows:read"], house.settings.lifetimes.access_token)

    page = alice.press(alice.open("/connections"), "End access of other")

    assert "no access any more" in page.text
    assert "other" not in [node.text() for node in page.all("h2")]
    assert not isinstance(house.parts.bearer.principal(f"Bearer {token.token}", agent.caller.surface), Principal)


def test_the_notice_of_an_ended_connection_tells_no_lies(alice: Reader, agent: Principal) -> None:
    page = alice.open(f"/connections?ended={agent.caller.grant_id}")

    assert "no access any more" not in page.text
    assert "Saved" not in alice.open(f"{page_of(agent)}?saved=7").text


def test_another_persons_connection_is_unknown(house: House, alice: Reader, agent: Principal) -> None:
    stranger = house.reader("bob@example.test", Role.ADMIN)
    own = house.agent(stranger, name="own")
    csrf = next(n for n in stranger.open(page_of(own)).all("input") if n.attrs.get("name") == "csrf").attrs["value"]
    before = scopes_of(house, agent)
    fields = [("csrf", csrf), ("scope", REFUND), ("password", PASSWORD)]

    foreign, none = stranger.open(page_of(agent)), stranger.open("/connections/gr_0")

    assert foreign.status == none.status == 404
    assert "helper" not in foreign.text
    assert stranger.post(page_of(agent), fields).status_code == 404
    assert stranger.post(f"{page_of(agent)}/end", fields).status_code == 404
    assert scopes_of(house, agent) == before


@pytest.mark.parametrize("path", ["", "/end"])
def test_a_form_of_another_session_changes_nothing(house: House, alice: Reader, agent: Principal, path: str) -> None:
    before = scopes_of(house, agent)
    for csrf in ([], [("csrf", "")], [("csrf", "guess")]):
        answer = alice.post(f"{page_of(agent)}{path}", [("scope", STOCK), ("password", PASSWORD), *csrf])

        assert answer.status_code == 403
    assert scopes_of(house, agent) == before


def test_access_is_never_ended_by_looking(house: House, alice: Reader, agent: Principal) -> None:
    assert alice.browser.get(f"{page_of(agent)}/end").status_code == 405
    assert scopes_of(house, agent)
