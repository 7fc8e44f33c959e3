"""May this principal call this flow? An ordered list of checks, each of which can only take away."""

from urllib.parse import quote

from core.settings import Settings
from flows.caller import Surface
from flows.envelope import Refusal
from flows.operation import Flow
from policy.decision import Allowed, Decision, Denied, NeedsConfirmation
from policy.principal import Principal
from policy.rules import confirmation_rule
from policy.scopes import Scopes


def decide(principal: Principal, flow: Flow, scopes: Scopes, settings: Settings) -> Decision:
    """Say whether `principal` may call `flow` now, before its arguments are looked at."""
    for check in CHECKS:
        refusal = check(principal, flow, scopes, settings)
        if refusal is not None:
            return Denied(refusal)
    if flow.only_reads:
        return Allowed()
    return NeedsConfirmation(confirmation_rule(flow, principal.caller.client_id, settings))


def grant_url(settings: Settings, grant_id: str, missing: tuple[str, ...]) -> str:
    """Give the page on which the person can add the missing scopes to this grant."""
    added = "&".join(f"add={quote(scope, safe=':')}" for scope in missing)
    return f"{settings.base_url}/connections/{grant_id}?{added}"


def check_role(principal: Principal, flow: Flow, scopes: Scopes, _settings: Settings) -> Refusal | None:
    """Refuse what the operator's role can never hold."""
    missing = scopes.missing(flow, scopes.of_role(principal.caller.role))
    if not missing:
        return None
    sentence = f"The role {principal.caller.role} can't hold what {flow.id} needs: {', '.join(missing)}."
    return Refusal("not_allowed", sentence, rule="role", missing_scopes=missing)


def check_scopes(principal: Principal, flow: Flow, scopes: Scopes, settings: Settings) -> Refusal | None:
    """Refuse what this grant doesn't hold, and say where it can be added."""
    missing = scopes.missing(flow, principal.scopes)
    if not missing:
        return None
    url = (
        None if principal.caller.surface is Surface.CONSOLE else grant_url(settings, principal.caller.grant_id, missing)
    )
    return Refusal(
        "insufficient_scope",
        f"This connection lacks {', '.join(missing)} for {flow.id}.",
        rule="scope",
        missing_scopes=missing,
        grantable=True,
        remedy="Ask the person to add the right on the page at grantUrl." if url else None,
        grant_url=url,
    )


def check_machine(principal: Principal, flow: Flow, _scopes: Scopes, _settings: Settings) -> Refusal | None:
    """Refuse what somebody has to confirm to a machine: it acts for nobody, so another person would have to."""
    if flow.only_reads or not principal.caller.is_machine:
        return None
    sentence = "A machine acts for nobody, so another person would have to confirm this, and nobody can be asked yet."
    return Refusal("four_eyes_unavailable", sentence, rule="four_eyes")


CHECKS = (
    check_role,
    check_scopes,
    check_machine,
)  # role first: what no consent could give isn't worth asking a person for
