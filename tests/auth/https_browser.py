"""A person's browser on an instance whose base URL is https, without a certificate: straight into the application."""

from tests.auth.served import Served
from tests.support.browser import FormBrowser

BASE_URL = "https://app.example.com"


class HttpsBrowser(FormBrowser):
    """Opens the pages of `served` as if a proxy with TLS stood in front of it; cookies that are Secure count."""

    def __init__(self, served: Served) -> None:
        super().__init__(served.base_url)
        self.client = served.parts.flask.test_client()

    def _send(self, method: str, url: str, fields: list[tuple[str, str]] | None) -> tuple[int, dict[str, str], str]:
        path = url.removeprefix(self.base_url) or "/"
        given = {"data": dict(_lists(fields))} if fields is not None else {}
        headers = self._headers(method)
        answer = self.client.open(path, base_url=self.base_url, method=method, headers=headers, **given)
        return answer.status_code, {name.lower(): value for name, value in answer.headers.items()}, answer.text


def _lists(fields: list[tuple[str, str]]) -> list[tuple[str, list[str]]]:
    return [(name, [value for other, value in fields if other == name]) for name in dict.fromkeys(n for n, _ in fields)]
