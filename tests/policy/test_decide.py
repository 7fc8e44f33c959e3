"""Who may call what, and which confirmation it then needs."""

from dataclasses import replace
from urllib.parse import parse_qs, urlsplit

import pytest

from flows.caller import Role, Surface
from flows.effects import Effect, Verb
from flows.operation import Rule
from policy.decide import decide
from policy.decision import Allowed, Denied, NeedsConfirmation
from policy.rules import confirmation_rule
from policy.scopes import Scopes
from tests.policy.house import FLOWS, agent, orders_list, orders_refund, orders_tag, settings_for

SCOPES = Scopes(FLOWS)
SETTINGS = settings_for("sqlite://")
DELETE = Effect(Verb.DELETE, "orders", frozenset({"shop_order"}))


def decided(principal, flow):
    return decide(principal, flow, SCOPES, SETTINGS)


def test_a_read_is_allowed_and_a_write_needs_a_person():
    assert decided(agent(), orders_list) == Allowed()
    assert decided(agent(), orders_refund) == NeedsConfirmation(Rule.HUMAN)


@pytest.mark.parametrize(
    ("held", "missing"),
    [
        ({"mcp:flows:read"}, ("mcp:action:invoke", "orders:refund")),
        ({"mcp:action:invoke"}, ("orders:refund",)),
        ({"orders:refund"}, ("mcp:action:invoke",)),
    ],
)
def test_a_right_that_could_be_had_is_named_with_the_page_that_grants_it(held, missing):
    denied = decided(agent(scopes=frozenset(held)), orders_refund)

    assert isinstance(denied, Denied)
    refusal, url = denied.refusal, urlsplit(denied.refusal.grant_url)
    assert (refusal.code, refusal.missing_scopes, refusal.grantable) == ("insufficient_scope", missing, True)
    assert (url.netloc, url.path) == ("localhost:6535", "/connections/gr_1")
    assert tuple(parse_qs(url.query)["add"]) == missing


def test_what_a_role_never_holds_is_no_question_of_scope():
    denied = decided(agent(role=Role.VIEWER, scopes=frozenset({"mcp:flows:read"})), orders_refund)

    assert isinstance(denied, Denied)
    assert (denied.refusal.code, denied.refusal.grantable, denied.refusal.grant_url) == ("not_allowed", False, None)


def test_scopes_beyond_the_role_open_nothing():
    assert isinstance(decided(agent(role=Role.VIEWER), orders_refund), Denied)


def test_a_person_at_the_console_gets_no_link_for_agents():
    denied = decided(agent(surface=Surface.CONSOLE, scopes=frozenset()), orders_list)

    assert isinstance(denied, Denied)
    assert denied.refusal.grant_url is None


def test_the_clients_own_question_counts_only_for_unattended_flows_and_listed_clients():
    assert confirmation_rule(orders_tag, "bot", SETTINGS) is Rule.CLIENT
    assert confirmation_rule(orders_tag, "claude", SETTINGS) is Rule.HUMAN
    assert confirmation_rule(orders_refund, "bot", SETTINGS) is Rule.HUMAN


@pytest.mark.parametrize(
    "changes",
    [{"unattended": False}, {"rule": Rule.HUMAN}, {"amount": "amount"}, {"effects": (DELETE,)}, {"rule": None}],
    ids=lambda changes: next(iter(changes)),
)
def test_nothing_lowers_the_rule_of_a_flow_that_deletes_pays_or_isnt_declared_so(changes):
    assert confirmation_rule(replace(orders_tag, **changes), "bot", SETTINGS) is Rule.HUMAN
