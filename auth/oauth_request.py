"""A request of an OAuth client as Authlib wants it, its parameters from one place only."""

from authlib.oauth2.rfc6749 import OAuth2Payload, OAuth2Request
from werkzeug.datastructures import Headers, MultiDict


class Parameters(OAuth2Payload):  # type: ignore[misc]
    """The parameters of a request from one place only: query or form, never both mixed."""

    def __init__(self, values: MultiDict[str, str]) -> None:
        self._values = values

    @property
    def data(self) -> MultiDict[str, str]:
        """Give them, the first of each name."""
        return self._values

    @property
    def datalist(self) -> dict[str, list[str]]:
        """Give them all."""
        return dict(self._values.lists())


class PlainRequest(OAuth2Request):  # type: ignore[misc]
    """A request as Authlib wants it.

    Whether transport is secure was decided by the base URL in settings (design D10): what this process sees behind
    a proxy is http, and says nothing (case C02).
    """

    def __init__(
        self,
        method: str,
        values: MultiDict[str, str],
        headers: Headers | None = None,
        address: str | None = None,
    ) -> None:
        super().__init__(method=method, uri="https://decided.by.settings/", headers=headers)
        self.payload = Parameters(values)
        self.address = address  # network address of whoever sent it

    @property
    def form(self) -> MultiDict[str, str]:
        """Give the parameters."""
        return self.payload.data

    @property
    def args(self) -> MultiDict[str, str]:
        """Give the parameters."""
        return self.payload.data
