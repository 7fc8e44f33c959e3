"""Many at one moment, against two workers on both databases: codes, refreshes, replays, and taking back."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.attacks.test_oauth_cases_tokens import Connected, end, grants_of, said, together
from tests.support.raw_mcp import RawAnswer, RawMcp
from tests.support.server import ServerProcess
from tests.support.waiting import wait_until

pytestmark = pytest.mark.db
BURST = 200


@pytest.fixture
def alice(server: ServerProcess) -> Connected:
    return Connected(server.base_url)


def test_c23_fifty_parallel_redemptions_have_one_winner_who_keeps_the_tokens(alice):
    for _ in range(2):
        code = alice.code()
        answers = together(50, lambda code=code: alice.client.exchange(code))
        won = [answer for answer in answers if answer.status == 200]

        assert len(won) == 1
        assert {said(answer) for answer in answers if answer.status != 200} == {(400, "invalid_grant")}
        assert alice.works(won[0].json["access_token"])
        assert alice.client.refresh(won[0].json["refresh_token"]).status == 200


def test_c24_twenty_parallel_refreshes_sign_nobody_out(alice):
    tokens = alice.tokens()
    answers = together(20, lambda: alice.client.refresh(tokens["refresh_token"]))
    successors = {answer.json["refresh_token"] for answer in answers}

    assert [answer.status for answer in answers] == [200] * 20
    assert len(successors) == 1
    assert all(alice.works(answer.json["access_token"]) for answer in answers)
    for answer in answers:  # each process goes on with what it was given
        assert alice.client.refresh(answer.json["refresh_token"]).status == 200
    assert alice.works(tokens["access_token"])


def test_a_replay_after_the_grace_ends_the_family_whichever_worker_sees_it(server_factory: Callable[..., Any]) -> None:
    alice = Connected(server_factory(COUNTERSIGN_REFRESH_GRACE_SECONDS="1").base_url)
    tokens = alice.tokens()
    second = alice.client.refresh(tokens["refresh_token"]).json
    third = alice.client.refresh(second["refresh_token"]).json
    answers: list[RawAnswer] = []

    def is_refused() -> bool:
        answers.append(alice.client.refresh(tokens["refresh_token"]))
        return answers[-1].status != 200

    wait_until("the end of the grace", is_refused, seconds=10)

    assert said(answers[-1]) == (400, "invalid_grant")
    assert not any(alice.works(one["access_token"]) for one in (tokens, second, third))
    assert said(alice.client.refresh(third["refresh_token"])) == (400, "invalid_grant")


@pytest.mark.parametrize("by", ["page", "client"])
def test_no_call_that_starts_after_access_was_taken_back_succeeds(alice, by):
    before = set(grants_of(alice.browser))
    tokens = alice.tokens()
    [grant] = set(grants_of(alice.browser)) - before
    ended = threading.Event()
    late: list[bool] = []
    early: list[bool] = []

    def call_on_and_on(_: int) -> None:
        while len(late) < BURST // 2:
            started_after = ended.is_set()
            works = RawMcp(f"{alice.base_url}/mcp", tokens["access_token"]).request("tools/list").status == 200
            (late if started_after else early).append(works)

    with ThreadPoolExecutor(8) as pool:
        calls = [pool.submit(call_on_and_on, n) for n in range(8)]
        wait_until("calls", lambda: len(early) >= BURST // 2)
        if by == "page":
            end(alice.browser, grant)
        else:
            given = {"token": tokens["refresh_token"], "client_id": alice.client.client_id}
            assert alice.client.post_form("/oauth/revoke", given).status == 200
        ended.set()
        for one in calls:
            one.result()

    assert len(early) + len(late) >= BURST
    assert any(early)
    assert not any(late)
