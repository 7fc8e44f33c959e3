"""A stolen session cookie alone decides nothing (design D4): browsers hand it to every port of the console's host."""

import itertools
from dataclasses import dataclass
from html import escape
from urllib.parse import urlencode, urljoin

import pytest
from playwright.sync_api import BrowserContext
from playwright.sync_api import Page as Tab

from tests.conftest import ServerFactory
from tests.journeys.shop import REFUND, agent_of, ask_for_refund, refundable_order
from tests.support.browser import FormBrowser
from tests.support.html import Page, values_of
from tests.support.listener import Listener, listening
from tests.support.oauth import RawOAuth
from tests.support.raw_mcp import RawAnswer, send
from tests.support.server import ALICE, ServerProcess

pytestmark = pytest.mark.browser

# What a thief may put in place of the page's own value; None leaves the field out.
CSRF = ("the page's own", "guessed", "", None)
PASSWORDS = ("", None, "wrong")
# A program forges any header: none, its own, and exactly what a browser sends from the console's own page.
SENDERS = ("silent", "own", "forged")
Fields = list[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class Target:
    """A page of the person, its button that gives something away, and the boxes that would be ticked."""

    url: str
    button: str
    tick: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Thief:
    """A program with the cookies that it was sent, and no password."""

    base_url: str
    cookie: str
    own_origin: str

    def look(self, url: str) -> Page:
        """Open a page as the person."""
        answer = send("GET", urljoin(self.base_url, url), [("Cookie", self.cookie), ("Accept", "text/html")], None)
        return Page(urljoin(self.base_url, url), answer.status, answer.headers, answer.raw.decode())

    def form(self, target: Target) -> tuple[str, Fields]:
        """Give where the target's form goes and what it would send, the password still missing."""
        page = self.look(target.url)
        button = page.button(target.button)
        form = page.form_of(button)
        assert form is not None
        for scope in target.tick:
            page.tick_box(scope).attrs["checked"] = ""
        return urljoin(page.url, form.attrs.get("action") or page.url), values_of(page, form, button)

    def submit(self, url: str, fields: Fields, sender: str) -> RawAnswer:
        """Send a form with the stolen cookies."""
        headers = [("Cookie", self.cookie), ("Content-Type", "application/x-www-form-urlencoded")]
        headers += {"silent": [], "own": self._own(), "forged": self._forged(url)}[sender]
        return send("POST", url, headers, urlencode(fields).encode())

    def _own(self) -> list[tuple[str, str]]:
        return [("Origin", self.own_origin), ("Sec-Fetch-Site", "same-site")]

    def _forged(self, url: str) -> list[tuple[str, str]]:
        return [("Origin", self.base_url), ("Referer", url), ("Sec-Fetch-Site", "same-origin")]


def test_cookies_collected_on_another_port_approve_consent_and_widen_nothing(
    server_factory: ServerFactory, chromium_context: BrowserContext
) -> None:
    server = server_factory()  # of its own: the tries use up what the person may get wrong
    with agent_of(ALICE, server, name="Asking agent") as (agent, browser), listening() as listener:
        refund = ask_for_refund(agent, refundable_order(agent, skip=10))
        another = Target(ask_for_refund(agent, refundable_order(agent, skip=12))["asked"]["confirmUrl"], "Approve")
        targets = _targets(server, browser, refund["asked"]["confirmUrl"])
        before = _rights(browser)
        tab, thief = _robbed(chromium_context, server, listener)
        assert ALICE.email in thief.look("/").text, "the cookie works for looking: the theft is real"
        assert _succeeded(_with_password(thief, another)), "the same form with the password does approve"

        tries = []
        for target in targets:  # each with a session of its own: five wrong passwords end one
            tab, thief = _robbed(chromium_context, server, listener)
            tries += [*_all_tries(thief, target), _from_the_persons_own_browser(tab, listener, thief, target)]

        succeeded = [answer for answer in tries if _succeeded(answer)]
        print(f"{len(succeeded)} of {len(tries)} tries succeeded")
        assert len(tries) == len(targets) * (len(CSRF) * len(PASSWORDS) * len(SENDERS) + 1)
        assert succeeded == []
        assert _rights(browser) == before
        assert agent.call("orders_refund", refund["confirmed"]).status == "confirmation_pending"


def test_nothing_decides_for_a_program_without_any_cookie(server: ServerProcess) -> None:
    with agent_of(ALICE, server, name="Asking agent") as (agent, browser):
        refund = ask_for_refund(agent, refundable_order(agent, skip=11))
        for authorization in ([], [("Authorization", f"Bearer {agent.access_token}")]):
            for target in _targets(server, browser, refund["asked"]["confirmUrl"]):
                answer = _without_cookie(target, authorization)

                assert not _succeeded(answer)
                assert answer.status in (303, 401, 403, 404), answer.raw
        assert agent.call("orders_refund", refund["confirmed"]).status == "confirmation_pending"


def test_no_page_of_another_site_can_frame_a_decision(server: ServerProcess) -> None:
    browser = FormBrowser(server.base_url)
    browser.sign_in(ALICE.email, ALICE.password)

    for path in ("/", "/connections", "/confirmations/cf_00000000000000000000000000000000"):
        headers = browser.open(path).headers

        assert "frame-ancestors 'none'" in headers["content-security-policy"]
        assert headers["x-frame-options"] == "DENY"
        assert headers["cache-control"] == "no-store"


def _targets(server: ServerProcess, browser: FormBrowser, confirm_url: str) -> list[Target]:
    """Give the three things that a thief is after: an approval, a new connection, a wider one."""
    client = RawOAuth(server.base_url)
    client.register()
    grant_page = next(
        link.attrs["href"] for link in browser.open("/connections").all("a") if "Asking agent may do" in link.text()
    )
    return [
        Target(confirm_url, "Approve"),
        Target(client.authorize_url(scope=REFUND), "Connect", (REFUND,)),
        Target(urljoin(server.base_url, f"{grant_page}?add=stock:adjust"), "Save", ("stock:adjust",)),
    ]


def _robbed(context: BrowserContext, server: ServerProcess, listener: Listener) -> tuple[Tab, Thief]:
    """Sign the person in anew, and let a page on another port take the cookie."""
    tab = _signed_in(context, server)
    tab.goto(listener.url)
    return tab, _thief(server, listener)


def _signed_in(context: BrowserContext, server: ServerProcess) -> Tab:
    context.clear_cookies()
    tab = context.new_page()
    tab.goto(f"{server.base_url}/login")
    tab.get_by_label("E-mail").fill(ALICE.email)
    tab.get_by_label("Password").fill(ALICE.password)
    tab.get_by_role("button", name="Sign in").click()
    tab.get_by_role("button", name="Sign out").wait_for()
    return tab


def _thief(server: ServerProcess, listener: Listener) -> Thief:
    assert listener.cookies, "Chromium sends cookies to every port of a host; the test is void without one"
    return Thief(server.base_url, listener.cookies[-1], listener.url.rsplit("/", 1)[0])


def _all_tries(thief: Thief, target: Target) -> list[RawAnswer]:
    answers = []
    for csrf, password, sender in itertools.product(CSRF, PASSWORDS, SENDERS):
        url, fields = thief.form(target)
        answers.append(thief.submit(url, _varied(fields, csrf, password), sender))
    return answers


def _with_password(thief: Thief, target: Target) -> RawAnswer:
    url, fields = thief.form(target)
    return thief.submit(url, _varied(fields, "the page's own", ALICE.password), "silent")


def _varied(fields: Fields, csrf: str | None, password: str | None) -> Fields:
    token = dict(fields)["csrf"]
    kept = [(name, value) for name, value in fields if name not in ("csrf", "password")]
    if csrf is not None:
        kept.append(("csrf", token if csrf == "the page's own" else csrf))
    return kept if password is None else [*kept, ("password", password)]


def _from_the_persons_own_browser(tab: Tab, listener: Listener, thief: Thief, target: Target) -> RawAnswer:
    """Let the listener's page submit the form in the person's browser, which adds the cookie by itself."""
    url, fields = thief.form(target)
    inputs = "".join(f'<input type="hidden" name="{escape(n)}" value="{escape(v)}">' for n, v in fields)
    listener.page = f'<!doctype html><form method="post" action="{escape(url)}">{inputs}<button>Go</button></form>'
    tab.goto(listener.url)
    with tab.expect_response(lambda answer: answer.request.method == "POST") as posted:
        tab.get_by_role("button", name="Go").click()
    answer = posted.value
    return RawAnswer(answer.status, {k.lower(): v for k, v in answer.headers.items()}, b"")


def _without_cookie(target: Target, headers: list[tuple[str, str]]) -> RawAnswer:
    fields = [("decision", "approve"), ("answer", "allow"), ("scope", "stock:adjust"), ("password", ALICE.password)]
    sent = [*headers, ("Content-Type", "application/x-www-form-urlencoded")]
    return send("POST", target.url.partition("?")[0], sent, urlencode(fields).encode())


def _succeeded(answer: RawAnswer) -> bool:
    """Whether it went as it does for the person: on to the decided page, or back to the client with a code."""
    location = answer.headers.get("location", "")
    return answer.status in (200, 302, 303) and "/login" not in location


def _rights(browser: FormBrowser) -> list[str]:
    """Give every right of every connection, as the person sees them."""
    page = browser.open("/connections")
    assert page.status == 200
    leaves = [
        item
        for item in page.all("li")
        if not any(node.tag in ("li", "form") for node in item.walk() if node is not item)
    ]
    return [item.text() for item in leaves]
