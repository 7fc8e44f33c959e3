"""What a verified call acts as. Made in auth/bearer.py (token), auth/sessions.py (page), auth/local.py (cli) only."""

from dataclasses import dataclass

from flows.caller import Caller


@dataclass(frozen=True, slots=True)
class Principal:
    """Operator, client, grant and surface with the scopes that count now: (narrowed or granted) ∩ role."""

    caller: Caller
    client_name: str
    grant_version: int

    @property
    def scopes(self) -> frozenset[str]:
        """The effective scopes."""
        return self.caller.scopes
