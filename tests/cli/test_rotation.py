"""`countersign secrets rotate`: the file keeps what is needed, and under load nobody notices."""

import signal
import stat
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import date, timedelta
from pathlib import Path

import pytest

from cli.key_file import Key, put_in_front, read_keys, write_keys
from core.settings import load_settings
from tests.attacks.test_oauth_cases_consent import answer_form, code_in, filled_form, new_client, signed_in
from tests.auth.served import Served
from tests.journeys.shop import REFUND, proof_of
from tests.support.browser import FormBrowser
from tests.support.oauth import RawOAuth, mcp_for
from tests.support.raw_mcp import LEGACY, RawMcp
from tests.support.server import ALICE, BOB, Instance, ServerProcess
from tests.support.waiting import wait_until

A, B, C = ("a" * 43, "b" * 43, "c" * 43)
TODAY = date(2026, 12, 1)
MONTH = timedelta(days=30)


def key_file(instance: Instance) -> Path:
    return instance.folder / "secret-key"


def test_two_steps_put_a_new_key_in_front_and_keep_the_old_one(new_instance: Callable[[], Instance]) -> None:
    instance = new_instance()
    (old,) = load_settings(instance.environment()).secret_keys

    begun = instance.run("secrets", "rotate")
    coming = load_settings(instance.environment()).secret_keys
    again = instance.run("secrets", "rotate", check=False)
    finished = instance.run("secrets", "rotate", "--finish")
    after = load_settings(instance.environment()).secret_keys
    twice = instance.run("secrets", "rotate", "--finish", check=False)

    assert coming[0] == old  # the new one is accepted and not used yet
    assert after == (coming[1], old)
    assert (again.returncode, twice.returncode) == (1, 1)
    assert "rotation_begun" in again.stderr
    assert "no_rotation" in twice.stderr
    assert stat.S_IMODE(key_file(instance).stat().st_mode) == 0o600
    printed = begun.stdout + finished.stdout + again.stderr + twice.stderr
    assert not [key for key in after if key in printed]


def test_a_leaked_key_is_replaced_at_once(new_instance: Callable[[], Instance]) -> None:
    instance = new_instance()
    before = load_settings(instance.environment()).secret_keys
    instance.run("secrets", "rotate", "--at-once")

    (after,) = load_settings(instance.environment()).secret_keys
    assert after not in before


def test_keys_in_the_environment_are_rotated_there(new_instance: Callable[[], Instance]) -> None:
    instance = new_instance()
    file = key_file(instance).read_bytes()
    refused = instance.run("secrets", "rotate", env={"COUNTERSIGN_SECRET_KEYS": A}, check=False)

    assert refused.returncode == 1
    assert "keys_in_environment" in refused.stderr
    assert A not in refused.stderr
    assert key_file(instance).read_bytes() == file


def test_a_key_goes_when_it_was_replaced_long_enough_ago() -> None:
    old = [Key(A, since=TODAY - 2 * MONTH), Key(B, since=TODAY - 9 * MONTH), Key(C), Key("d" * 43, is_coming=True)]

    def kept(days: int) -> list[str]:
        return [key.text[0] for key in put_in_front(old, TODAY, timedelta(days=days))]

    assert kept(90) == ["d", "a", "b"]  # B was replaced two months ago, C nine
    assert kept(365) == ["d", "a", "b", "c"]
    assert kept(30) == ["d", "a"]


def test_a_key_without_a_day_is_kept_as_if_it_was_replaced_today() -> None:
    assert put_in_front([Key(A), Key(B), Key(C, is_coming=True)], TODAY, timedelta(0)) == [
        Key(C, since=TODAY),
        Key(A),
        Key(B),
    ]


def test_the_file_gives_back_what_was_written_and_remarks_of_others_do_no_harm(tmp_path: Path) -> None:
    path = tmp_path / "secret-key"
    keys = [Key(A, since=TODAY), Key(B), Key(C, is_coming=True)]
    write_keys(path, keys)
    assert read_keys(path) == keys

    path.write_text(f"# ours\n{A},{B} # since a while\n\n{C}\n")
    assert read_keys(path) == [Key(A), Key(B), Key(C)]
    assert load_settings({"COUNTERSIGN_INSTANCE": str(tmp_path)}).secret_keys == (A, B, C)


@pytest.mark.db
def test_a_lost_answer_is_repeated_with_the_same_token_by_a_worker_whose_key_is_another(
    new_instance: Callable[[], Instance],
) -> None:
    instance = new_instance()
    twin = Instance(instance.folder, instance.database_url)
    with (
        Served(instance, COUNTERSIGN_SECRET_KEYS=f"{A},{B}") as first,
        Served(twin, COUNTERSIGN_SECRET_KEYS=f"{B},{A}", COUNTERSIGN_BASE_URL=first.base_url) as second,
        Served(Instance(instance.folder, instance.database_url), COUNTERSIGN_SECRET_KEYS=C,
               COUNTERSIGN_BASE_URL=first.base_url) as stranger,
    ):  # fmt: skip
        browser = FormBrowser(first.base_url)
        browser.sign_in(ALICE.email, ALICE.password)
        client = RawOAuth(first.base_url)
        client.register()
        token = client.exchange(client.code_from(browser)).json["refresh_token"]
        answers = [RawOAuth(one.address, client.client_id).refresh(token) for one in (first, second, first)]
        unknown = RawOAuth(stranger.address, client.client_id).refresh(token)

    assert [answer.status for answer in answers] == [200] * 3
    assert len({answer.json["refresh_token"] for answer in answers}) == 1
    assert (unknown.status, unknown.json["error"]) == (400, "invalid_grant")


@pytest.mark.db
def test_a_consent_sent_twice_gets_the_same_code_from_a_worker_whose_key_is_another(
    new_instance: Callable[[], Instance],
) -> None:
    instance = new_instance()
    twin = Instance(instance.folder, instance.database_url)
    with (
        Served(instance, COUNTERSIGN_SECRET_KEYS=f"{A},{B}") as first,
        Served(twin, COUNTERSIGN_SECRET_KEYS=f"{B},{A}", COUNTERSIGN_BASE_URL=first.base_url) as second,
    ):
        browser, client = signed_in(first.base_url), new_client(first.base_url)
        fields = filled_form(browser, client)
        answers = [answer_form(browser, fields)]
        browser.base_url = second.address
        answers.append(answer_form(browser, fields))

        assert code_in(answers[0]) == code_in(answers[1])
        assert client.exchange(code_in(answers[1])).status == 200


# --- under load -------------------------------------------------------------------------------------------------------


class Load:
    """Jobs that repeat until they are told to stop; a job that fails ends, and its failure comes out."""

    def __init__(self) -> None:
        self.stopped, self.failed = threading.Event(), threading.Event()
        self.rounds: dict[str, int] = {}

    def repeat(self, job: Callable[[], None]) -> None:
        name = getattr(job, "__name__", "job")
        while not self.stopped.is_set():
            try:
                job()
            except BaseException:
                self.failed.set()
                raise
            self.rounds[name] = self.rounds.get(name, 0) + 1

    def go_round(self, jobs: int) -> None:
        """Wait until every job has been through once more, or one has ended."""
        before = dict(self.rounds)
        wait_until(
            "a round of each job",
            lambda: (
                self.failed.is_set()
                or len([name for name, done in self.rounds.items() if done > before.get(name, 0)]) == jobs
            ),
            seconds=60,
        )


@contextmanager
def under_load(*jobs: Callable[[], None]) -> Iterator[Load]:
    """Repeat the jobs in threads of their own while the body runs; raise what they raised."""
    load = Load()
    with ThreadPoolExecutor(len(jobs)) as pool:
        running = [pool.submit(load.repeat, job) for job in jobs]
        try:
            yield load
        finally:
            load.stopped.set()
        for one in running:
            one.result()


def reload(server: ServerProcess) -> None:
    """Send SIGHUP and wait until every worker that answers is a new one."""
    assert server.process is not None
    before = _children(server.process.pid)
    server.process.send_signal(signal.SIGHUP)
    wait_until("new workers", lambda: not before & _children(server.process.pid), seconds=60)


def _children(pid: int) -> set[int]:
    found = set()
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            words = status.read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        if int(words[1]) == pid and words[0] != "Z":
            found.add(int(status.parent.name))
    return found


def test_rotated_under_load_no_call_fails_and_nobody_is_signed_out(
    server_factory: Callable[..., ServerProcess],
) -> None:
    server = server_factory()
    person, approver, other = (FormBrowser(server.base_url) for _ in range(3))
    person.sign_in(ALICE.email, ALICE.password)
    approver.sign_in(ALICE.email, ALICE.password)
    other.sign_in(BOB.email, BOB.password)
    agent = mcp_for(person, tick=(REFUND,))
    legacy = agent.as_version(LEGACY)
    sessions = [_session(legacy)]
    for _ in range(3):
        agent.call("orders_list")  # something to page through
    orders = iter(agent.call("orders_list", {"status": "paid", "limit": 100}).data["orders"])
    client = RawOAuth(server.base_url)
    client.register()
    tokens = [client.exchange(client.code_from(other)).json]

    def reading() -> None:
        assert agent.call("orders_list").data["orders"]

    def sessions_of_the_old_era() -> None:
        for session in (sessions[0], sessions[-1]):
            answer = legacy.call("orders_list", {}, headers={"Mcp-Session-Id": session})
            assert answer.status == 200, answer.raw
        sessions.append(_session(legacy))

    def paging() -> None:
        first = agent.call("traces_list", {"limit": 1}).data
        assert agent.call("traces_list", {"limit": 1, "cursor": first["nextCursor"]}).data["runs"]

    def refreshing() -> None:
        answers = [client.refresh(tokens[-1]["refresh_token"]) for _ in range(2)]
        assert [answer.status for answer in answers] == [200, 200], answers
        assert answers[0].json["refresh_token"] == answers[1].json["refresh_token"]
        tokens.append(answers[1].json)
        assert RawMcp(server.mcp_url, tokens[-1]["access_token"]).call("traces_list").status == 200

    def looking_at_pages() -> None:
        assert "Sign out" in person.open("/runs").text

    def signing_in_later() -> None:
        newcomer = FormBrowser(server.base_url)
        newcomer.open("/runs")  # a sealed way back and a sealed form, answered by whichever worker
        newcomer.sign_in(BOB.email, BOB.password)
        assert newcomer.page.url.endswith("/runs")

    def writing() -> None:
        order = next(orders, None)
        if order is None:
            return
        arguments = {"order_id": order["number"], "reason": "damaged"}
        asked = agent.call("orders_refund", arguments).data
        approver.approve(asked["confirmUrl"])
        done = agent.call("orders_refund", arguments | proof_of(asked["confirmToken"]))
        assert done.data["status"] == "done", done.raw

    jobs = (reading, sessions_of_the_old_era, paging, refreshing, looking_at_pages, signing_in_later, writing)
    old = load_settings(server.instance.environment()).secret_keys
    wait_until("runs for a second page", lambda: "nextCursor" in agent.call("traces_list", {"limit": 1}).data)
    with under_load(*jobs) as load:
        load.go_round(len(jobs))
        server.instance.run("secrets", "rotate")
        reload(server)
        load.go_round(len(jobs))
        server.instance.run("secrets", "rotate", "--finish")
        reload(server)
        load.go_round(len(jobs))

    now = load_settings(server.instance.environment()).secret_keys
    assert now[1:] == old
    assert not [event for event in server.log_events() if event.get("level") == "error"], server.log()


def _session(legacy: RawMcp) -> str:
    return legacy.initialize().headers["mcp-session-id"]
