"""The pages where a device's code is typed, in a real browser: accessible, at home on a phone and in the dark."""

from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.support.oauth import RawOAuth
from tests.support.server import ALICE, ServerProcess
from tests.web import axe
from tests.web.test_in_chromium import OVERFLOWS, TOO_SMALL

pytestmark = pytest.mark.browser
LOOKS = [(1280, "light"), (375, "dark")]
WRONG = "BCDF-GHJK"


class Television:
    """A device that shows codes."""

    def __init__(self, server: ServerProcess) -> None:
        words = ("client", "add", "--name", "Television", "--device", "--method", "none")
        self._client = RawOAuth(server.base_url, client_id=server.instance.run(*words).stdout.strip())

    def code(self) -> str:
        answer = self._client.post_form("/oauth/device", {"client_id": self._client.client_id})
        return str(answer.json["user_code"])


@pytest.fixture
def server_with_devices(server_factory: Any) -> ServerProcess:
    axe.install()
    started: ServerProcess = server_factory(workers=1, COUNTERSIGN_DEVICE_GRANT="on")
    return started


def sign_in(tab: Page) -> None:
    tab.goto("/device")
    tab.get_by_label("E-mail").fill(ALICE.email)
    tab.get_by_label("Password").fill(ALICE.password)
    tab.get_by_role("button", name="Sign in").click()


def type_code(tab: Page, code: str) -> None:
    tab.goto("/device")
    tab.get_by_label("The code on the device").press_sequentially(code)
    with tab.expect_navigation():
        tab.keyboard.press("Enter")


def test_each_page_of_a_device_is_accessible_and_fits(
    server_with_devices: ServerProcess, chromium: Browser, tmp_path: Path
) -> None:
    television = Television(server_with_devices)
    for width, scheme in LOOKS:
        context = chromium.new_context(
            base_url=server_with_devices.base_url,
            viewport={"width": width, "height": 800},
            color_scheme="dark" if scheme == "dark" else "light",
        )
        tab = context.new_page()

        def look(name: str, tab: Page = tab, size: str = f"{width}-{scheme}") -> None:
            tab.screenshot(path=tmp_path / f"{name}-{size}.png", full_page=True)
            assert axe.violations(tab) == [], name
            assert tab.evaluate(OVERFLOWS) == 0, f"{name} scrolls sideways"
            assert tab.evaluate(TOO_SMALL) == [], name

        sign_in(tab)
        expect(tab.get_by_label("The code on the device")).to_be_focused()
        look("empty")
        type_code(tab, WRONG)
        expect(tab.get_by_label("The code on the device")).to_have_value("")
        expect(tab.get_by_role("alert")).to_contain_text("isn’t waiting")
        look("wrong")
        type_code(tab, television.code().lower())
        look("question")
        tab.get_by_label("Your password").fill("wrong")
        tab.get_by_role("button", name="Allow").click()
        expect(tab.get_by_role("alert")).to_contain_text("Nothing was connected")
        look("refused")
        tab.get_by_label("Your password").fill(ALICE.password)
        tab.get_by_role("button", name="Allow").click()
        expect(tab.get_by_role("status")).to_contain_text("Allowed")
        look("allowed")
        for _ in range(4):
            type_code(tab, WRONG)
        expect(tab.get_by_role("link", name="Sign in again")).to_be_visible()
        look("ended")
        context.close()


def test_a_code_is_typed_and_allowed_by_keyboard_without_script(
    server_with_devices: ServerProcess, chromium: Browser
) -> None:
    context = chromium.new_context(base_url=server_with_devices.base_url, java_script_enabled=False)
    tab = context.new_page()
    sign_in(tab)
    type_code(tab, Television(server_with_devices).code())
    tab.get_by_label("Your password").press_sequentially(ALICE.password)
    tab.keyboard.press("Tab")
    expect(tab.get_by_role("button", name="Allow")).to_be_focused()
    tab.keyboard.press("Enter")

    expect(tab.get_by_role("status")).to_contain_text("Allowed")
    context.close()
