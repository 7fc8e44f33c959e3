"""Scopes in words, by role, and what is missing (design §5)."""

from dataclasses import replace

import pytest

from flows.caller import Role
from flows.effects import Effect, Verb
from flows.operation import Source
from policy.scopes import READ_SCOPES, Kind, Scopes, ScopeWords
from tests.policy.house import FLOWS, READ_ORDERS, orders_list, orders_refund

CUSTOMERS = Effect(Verb.READ, "customers", frozenset({"shop_customer"}))
SALES = replace(orders_list, id="reports.sales", title="Sales report", scope="reports:read", effects=(CUSTOMERS,))
PAYROLL = replace(orders_list, id="payroll.show", title="Show the payroll", scope="payroll:all")


@pytest.fixture
def scopes():
    return Scopes((*FLOWS, SALES, PAYROLL))


def test_only_what_flows_and_product_declare_can_be_consented(scopes):
    assert set(scopes.consentable) == {
        *READ_SCOPES, "mcp:action:invoke", "orders:refund", "reports:read", "payroll:all",
    }  # fmt: skip
    assert scopes.read_scopes == READ_SCOPES


@pytest.mark.parametrize("scope", ["console:flows:invoke", "mcp:*", "console:*", "*", "offline_access", "admin", ""])
def test_what_no_consent_gives_is_dropped_from_a_request(scopes, scope):
    assert scopes.parse(f"{scope} orders:refund {scope}") == ("orders:refund",)
    assert scope not in scopes.consentable


def test_a_request_keeps_its_order_and_says_nothing_twice(scopes):
    assert scopes.parse(" orders:refund mcp:flows:read\torders:refund ") == ("orders:refund", "mcp:flows:read")


def test_a_role_bounds_what_is_granted(scopes):
    granted = ("mcp:flows:read", "mcp:action:invoke", "orders:refund", "payroll:all", "reports:read", "made:up")

    viewer, operator = scopes.effective(granted, Role.VIEWER), scopes.effective(granted, Role.OPERATOR)

    assert viewer == {"mcp:flows:read", "reports:read"}
    assert operator == set(granted) - {"made:up"}


@pytest.mark.parametrize("role", list(Role))
def test_no_role_and_no_wildcard_gives_what_nobody_declared(scopes, role):
    everything = scopes.effective({"mcp:*", "console:*", "made:up", "mcp:action:structural"}, role)

    assert everything == scopes.of_role(role)
    assert everything <= scopes.declared


def test_a_wildcard_of_agents_gives_nothing_of_the_console(scopes):
    held = scopes.effective({"mcp:*"}, Role.ADMIN)

    assert held == set(scopes.consentable)


def test_a_person_at_the_console_holds_the_flows_own_scopes(scopes):
    held = scopes.effective({"console:*"}, Role.OPERATOR)

    assert not scopes.missing(orders_refund, held)
    assert not any(scope.startswith("mcp:") for scope in held)


def test_what_is_missing_is_named_for_agents(scopes):
    assert scopes.missing(orders_refund, frozenset()) == ("mcp:action:invoke", "orders:refund")
    assert scopes.missing(orders_refund, frozenset({"console:flows:invoke"})) == ("orders:refund",)
    assert scopes.missing(orders_list, frozenset({"mcp:flows:read"})) == ()
    assert scopes.missing(SALES, frozenset({"mcp:flows:read"})) == ("reports:read",)


def test_a_flows_own_scope_brings_the_right_to_call_its_kind(scopes):
    assert scopes.with_implied(["orders:refund"]) == ("orders:refund", "mcp:action:invoke")
    assert scopes.with_implied(["reports:read"]) == ("reports:read", "mcp:flows:read")
    assert scopes.with_implied(["mcp:flows:read"]) == ("mcp:flows:read",)


def test_tick_boxes_say_what_they_mean(scopes):
    words = [scopes.words(scope) for scope in ("mcp:flows:read", "orders:refund", "reports:read", "mcp:action:invoke")]

    assert words == [
        ScopeWords("mcp:flows:read", Kind.READ, "Look up customers and orders", ""),
        ScopeWords("orders:refund", Kind.ACT, "Ask to refund an order", "changes orders, sends e-mail"),
        ScopeWords("reports:read", Kind.READ, "Use: sales report", "reads customers"),
        ScopeWords("mcp:action:invoke", Kind.ACT, "Ask to use what changes something", "tag an order"),
    ]


def test_every_consentable_scope_has_words(scopes):
    assert all(scopes.words(scope).label for scope in scopes.consentable)


def test_built_in_flows_bring_no_scopes_or_words_of_their_own():
    builtin = replace(orders_list, source=Source.BUILTIN, effects=(READ_ORDERS,))

    assert Scopes([builtin]).words("mcp:flows:read").label == "Use what only reads"
