"""What an agent finds beside the tools: it searches, reads resources, takes a prompt, and completes its argument."""

import json
from typing import Any

import pytest
from mcp.shared.exceptions import MCPError
from mcp_types import PromptReference, ResourceTemplateReference

from tests.journeys.shop import agent_of, refundable_order
from tests.support.agent import Agent
from tests.support.server import ALICE, BOB, ServerProcess
from tests.support.waiting import wait_until

pytestmark = pytest.mark.db
ERAS = pytest.mark.parametrize(("mode", "not_found"), [("auto", -32602), ("legacy", -32002)])

RUNS = ResourceTemplateReference(uri="countersign://runs/{runId}")
EXPLAIN, PREPARE = PromptReference(name="explain_run"), PromptReference(name="prepare_call")


def a_run(agent: Agent) -> str:
    """Leave a run, and return its id as soon as it can be completed."""
    refundable_order(agent)
    run_id = str(agent.call("traces_list", flowId="orders.list", limit=1)["runs"][0]["runId"])
    wait_until("the run", lambda: run_id in completed(agent, RUNS))
    return run_id


def completed(agent: Agent, reference: Any, argument: str = "runId", value: str = "run_") -> list[str]:
    answer = agent.ask("complete", reference, {"name": argument, "value": value})
    return list(answer.completion.values)


def text_at(agent: Agent, uri: str) -> str:
    [content] = agent.ask("read_resource", uri, cache_mode="refresh").contents
    return str(content.text)


@ERAS
def test_an_agent_reads_what_it_did_and_takes_the_prompt_that_explains_it(
    server: ServerProcess, mode: str, not_found: int
) -> None:
    with agent_of(ALICE, server, mode=mode) as (agent, _):
        capabilities = agent.client.server_capabilities
        run_id = a_run(agent)
        listed = {str(one.uri): one for one in agent.ask("list_resources").resources}
        templates = {one.uri_template for one in agent.ask("list_resource_templates").resource_templates}
        run = json.loads(text_at(agent, f"countersign://runs/{run_id}"))
        prompts = {one.name: one for one in agent.ask("list_prompts").prompts}
        prompt = agent.ask("get_prompt", "explain_run", {"runId": run_id})
        with pytest.raises(MCPError) as refused:
            agent.ask("read_resource", "countersign://runs/run_" + "0" * 32)

    assert None not in (capabilities.resources, capabilities.prompts, capabilities.completions)
    assert listed["countersign://docs/connect"].mime_type == "text/markdown"
    assert "countersign://runs/{runId}" in templates
    assert (run["runId"], run["flowId"], run["status"]) == (run_id, "orders.list", "done")
    assert prompts["explain_run"].arguments[0].required
    assert [message.content.type for message in prompt.messages] == ["resource", "text"]
    assert json.loads(prompt.messages[0].content.resource.text)["runId"] == run_id
    assert refused.value.error.code == not_found


@ERAS
def test_what_search_finds_is_fetched_and_read_alike(server: ServerProcess, mode: str, not_found: int) -> None:
    with agent_of(ALICE, server, mode=mode) as (agent, browser):
        results = agent.call("search", query="refund an order")["results"]
        fetched = agent.call("fetch", id=results[0]["id"])
        read = json.loads(text_at(agent, results[0]["id"]))
        pages = [browser.open(one["url"]) for one in results[:5]]

    assert results[0]["title"] == fetched["title"] == read["title"] == "Refund an order"
    assert json.loads(fetched["text"]) == read
    assert {page.status for page in pages} == {200}


def test_completion_follows_what_is_typed_and_stays_with_its_person(server: ServerProcess) -> None:
    with agent_of(ALICE, server) as (alice, _), agent_of(BOB, server) as (bob, _):
        hers, his = a_run(alice), a_run(bob)

        assert completed(alice, EXPLAIN, value=hers[:-1]) == [hers]
        assert completed(bob, EXPLAIN, value=hers) == []
        assert his not in completed(alice, EXPLAIN)
        assert completed(alice, PREPARE, "flowId", "orders.r") == ["orders.refund"]
