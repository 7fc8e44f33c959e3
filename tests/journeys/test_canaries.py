"""No secret of a whole journey is found in anything that the server keeps, writes or answers."""

from urllib.parse import parse_qs, urlsplit

import pytest

from tests.conftest import ServerFactory
from tests.journeys.shop import agent_of, ask_for_refund, refundable_order
from tests.support.dump import dump_database, files_with
from tests.support.oauth import RawOAuth
from tests.support.server import ALICE

pytestmark = pytest.mark.db


def test_no_secret_of_a_journey_is_kept_or_written(server_factory: ServerFactory) -> None:
    server = server_factory()
    with agent_of(ALICE, server) as (agent, browser):
        refund = ask_for_refund(agent, refundable_order(agent))
        agent.call("orders_refund", refund["confirmed"])
        browser.approve(refund["asked"]["confirmUrl"])
        done = agent.call("orders_refund", refund["confirmed"])
        client = RawOAuth(server.base_url, agent.storage.client_info.client_id if agent.storage.client_info else "")
        refreshed = client.refresh(agent.storage.seen[1]).json
        confidential = RawOAuth(server.base_url).register(token_endpoint_auth_method="client_secret_basic").json
        code = parse_qs(urlsplit(agent.person.callback_url).query)["code"]
        cookies = [cookie.value or "" for cookie in browser.cookies]
        secrets = {*agent.storage.seen, refund["asked"]["confirmToken"], *code, *cookies, ALICE.password}
        secrets |= {refreshed["access_token"], refreshed["refresh_token"], confidential["client_secret"]}
        answers = [agent.call("traces_get", runId=done["runId"]), agent.call("traces_list"), agent.call("manifest_get")]
        answers.append(agent.call("orders_refund", refund["confirmed"]))
        pages = [browser.open(f"/runs/{done['runId']}"), browser.open("/runs"), browser.open("/connections")]
        answered = "\n".join([str(a.data) + a.text for a in answers] + [page.body for page in pages])
        server.stop()

    assert len(secrets) == 10, sorted(secrets)
    kept = dump_database(server.instance.database_url)
    # What is known to be there is found, so that "not found" below means something.
    assert ALICE.email in kept
    assert "cs_audit" in kept
    assert done["runId"] in answered
    assert '"path":"/oauth/token"' in server.log()
    assert files_with(server.instance.folder, "we have refunded")
    for secret in secrets:
        shown = secret[:10]
        assert secret not in kept, f"{shown}… is in the database"
        assert secret not in server.log(), f"{shown}… is in the log"
        assert secret not in answered, f"{shown}… is in a trace, a list or a page"
        assert files_with(server.instance.folder, secret) == [], f"{shown}… is in a file"
