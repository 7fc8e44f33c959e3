"""A person with a plain browser: no script, real forms, found by the words on the page."""

import http.client
import urllib.request
from collections.abc import Iterable
from http.cookiejar import CookieJar
from urllib.parse import parse_qs, urlencode, urljoin, urlsplit

from tests.support.html import Node, NotOnPage, Page, submits, values_of

MAX_REDIRECTS = 10


class _StayPut(urllib.request.HTTPErrorProcessor):
    """Hand back every answer as it is; redirects and errors are the browser's own business."""

    def http_response(self, request: object, response: http.client.HTTPResponse) -> http.client.HTTPResponse:
        return response

    https_response = http_response


class FormBrowser:
    """Opens pages of one origin, fills forms by their labels and stops when it is sent to another origin."""

    def __init__(self, base_url: str) -> None:
        self.base_url = base_url.rstrip("/")
        self.cookies = CookieJar()
        self._opener = urllib.request.build_opener(
            urllib.request.ProxyHandler({}), urllib.request.HTTPCookieProcessor(self.cookies), _StayPut()
        )
        self._page: Page | None = None
        self._account: tuple[str, str] | None = None
        self.sent_to: str | None = None  # the address of another origin that the last step led to

    @property
    def page(self) -> Page:
        """The page that is open now."""
        if self._page is None:
            raise NotOnPage("no page is open" + (f"; was sent to {self.sent_to}" if self.sent_to else ""))
        return self._page

    # --- going places -------------------------------------------------------------------------------------------

    def open(self, url: str) -> Page:
        """Open an address, follow redirects within the origin and return the page; its status may be an error."""
        return self._go("GET", urljoin(self.base_url + "/", url), None)

    def follow(self, link_text: str) -> Page:
        """Click the one link with this text."""
        return self.open(urljoin(self.page.url, self.page.link(link_text).attrs["href"]))

    def post(self, url: str, fields: Iterable[tuple[str, str]]) -> Page:
        """Send a form that isn't on any page, as an attacker does, with this browser's cookies."""
        return self._go("POST", urljoin(self.base_url + "/", url), list(fields))

    # --- filling in ---------------------------------------------------------------------------------------------

    def fill(self, label: str, value: str, *, form: Node | None = None) -> None:
        """Type into the field with this label."""
        self.page.control(label, form=form).attrs["value"] = value

    def tick(self, label_or_value: str, *, form: Node | None = None) -> None:
        """Tick the box with this label or value, as a person who may not tick what is disabled."""
        box = self.page.tick_box(label_or_value, form=form)
        if box.has("disabled"):
            raise NotOnPage(f"the tick box {label_or_value!r} is disabled\n{self.page.describe()}")
        box.attrs["checked"] = ""

    def untick(self, label_or_value: str, *, form: Node | None = None) -> None:
        """Untick the box with this label or value."""
        self.page.tick_box(label_or_value, form=form).attrs.pop("checked", None)

    def choose(self, label: str, option_text: str) -> None:
        """Choose an option of the list with this label."""
        options = [node for node in self.page.control(label).walk() if node.tag == "option"]
        wanted = [node for node in options if node.text() == option_text]
        if len(wanted) != 1:
            raise NotOnPage(f"no option {option_text!r}; there are {[node.text() for node in options]}")
        for node in options:
            node.attrs.pop("selected", None)
        wanted[0].attrs["selected"] = ""

    def submit(self, button_text: str, *, within: str | None = None) -> Page | None:
        """Press the one button with this text; None when that led to another origin (see `sent_to`)."""
        page = self.page
        button = page.button(button_text, within=within)
        form = page.form_of(button)
        if form is None:
            raise NotOnPage(f"the button {button_text!r} belongs to no form\n{page.describe()}")
        fields = values_of(page, form, button)
        action = button.attrs.get("formaction") or form.attrs.get("action") or page.url
        url = urljoin(page.url, action)
        if form.attrs.get("method", "get").lower() == "post":
            self._go("POST", url, fields)
        else:
            self._go("GET", url.partition("?")[0] + "?" + urlencode(fields), None)
        return self._page

    # --- what people do here ------------------------------------------------------------------------------------

    def sign_in(self, email: str, password: str) -> Page:
        """Sign in, on the sign-in page that is open or else on `/login`, and return the page that follows."""
        if self._page is None or not self._asks_to_sign_in():
            self.open("/login")
        self.fill("E-mail", email)
        self.fill("Password", password)
        self.submit("Sign in")
        if self.sent_to is None and self._asks_to_sign_in():
            raise NotOnPage(f"sign-in of {email} failed\n{self.page.describe()}")
        self._account = (email, password)
        return self._page or self.open("/")

    def consent(
        self,
        url: str,
        *,
        tick: Iterable[str] = (),
        untick: Iterable[str] = (),
        password: str | None = None,
        button: str = "Connect",
    ) -> str:
        """Answer an authorization request on its consent page; return the address the client is sent back to."""
        self.open_signed_in(url)
        if self.sent_to is None:
            for box in tick:
                self.tick(box)
            for box in untick:
                self.untick(box)
            self.prove(password)
            self.submit(button)
        return self.callback_for(url)

    def callback_for(self, authorize_url: str) -> str:
        """Return where the last step led, which must be the request's own redirect address."""
        wanted = parse_qs(urlsplit(authorize_url).query)["redirect_uri"][0]
        if self.sent_to is None or not self.sent_to.startswith(wanted):
            where = self.sent_to or self.page.describe()
            raise NotOnPage(f"was not sent back to {wanted}, but to: {where}")
        return self.sent_to

    def approve(self, confirm_url: str, *, password: str | None = None) -> Page:
        """Open a confirmation and approve it with the password."""
        self.open_signed_in(confirm_url)
        self.prove(password)
        self.submit("Approve")
        return self.page

    def deny(self, confirm_url: str, *, note: str | None = None) -> Page:
        """Open a confirmation and deny it, with a note to the agent where one is given."""
        self.open_signed_in(confirm_url)
        if note is not None:
            self.fill("Note", note)
        self.submit("Deny")
        return self.page

    def open_signed_in(self, url: str) -> Page | None:
        """Open an address, signing in with the account used before when a page asks for it."""
        self.open(url)
        if self.sent_to is None and self._asks_to_sign_in():
            if self._account is None:
                raise NotOnPage(f"the page asks to sign in, and nobody has\n{self.page.describe()}")
            self.sign_in(*self._account)
        return self._page

    def prove(self, password: str | None = None) -> None:
        """Fill in the password where the page asks for it as the proof of a decision."""
        fields = [n for n in self.page.all("input") if n.attrs.get("type", "").lower() == "password"]
        if password is None and self._account is not None:
            password = self._account[1]
        for node in fields:
            node.attrs["value"] = password or ""

    # --- the wire -----------------------------------------------------------------------------------------------

    def _asks_to_sign_in(self) -> bool:
        page = self._page
        return page is not None and any(
            page.name_of(button).casefold() == "sign in" for button in page.all("button", "input") if submits(button)
        )

    def _go(self, method: str, url: str, fields: list[tuple[str, str]] | None) -> Page:
        self.sent_to = None
        for _ in range(MAX_REDIRECTS):
            if not self._is_ours(url):
                self.sent_to, self._page = url, None
                return Page(url, 0, {}, "")
            status, headers, body = self._send(method, url, fields)
            if status not in (301, 302, 303, 307, 308):
                self._page = Page(url, status, headers, body)
                return self._page
            url = urljoin(url, headers["location"])
            if status not in (307, 308):
                method, fields = "GET", None
        raise NotOnPage(f"more than {MAX_REDIRECTS} redirects, the last to {url}")

    def _send(self, method: str, url: str, fields: list[tuple[str, str]] | None) -> tuple[int, dict[str, str], str]:
        data = None if fields is None else urlencode(fields).encode()
        request = urllib.request.Request(url, data=data, method=method, headers=self._headers(method))
        with self._opener.open(request, timeout=60) as answer:
            headers = {name.lower(): value for name, value in answer.headers.items()}
            return answer.status, headers, answer.read().decode("utf-8", "replace")

    def _headers(self, method: str) -> dict[str, str]:
        headers = {"Accept": "text/html,application/xhtml+xml", "Accept-Language": "en", "User-Agent": "FormBrowser"}
        quiet = self._page is not None and self._page.headers.get("referrer-policy") == "no-referrer"
        if method == "POST":
            # Fetch, "append a request Origin header": a page that sends no referrer posts with the origin `null`.
            headers["Origin"] = "null" if quiet else self._origin()
        if self._page is not None and not quiet:
            headers["Referer"] = self._page.url
        return headers

    def _origin(self) -> str:
        parts = urlsplit(self.base_url)
        return f"{parts.scheme}://{parts.netloc}"

    def _is_ours(self, url: str) -> bool:
        return url == self._origin() or url.startswith(self._origin() + "/")
