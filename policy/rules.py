"""Which confirmation a call needs: the least that its flow declares, raised wherever less isn't allowed (design D4)."""

from core.settings import Settings
from flows.operation import Flow, Rule


def confirmation_rule(flow: Flow, client_id: str, settings: Settings) -> Rule:
    """Give the rule for `flow` called by this client: HUMAN unless everything allows CLIENT."""
    declared = flow.rule is Rule.CLIENT and flow.unattended
    harmless = not flow.deletes and flow.amount is None
    return Rule.CLIENT if declared and harmless and client_id in settings.unattended_clients else Rule.HUMAN
