"""Flows that try to do more than they declare, run by the real engine: refused, or listed as what isn't seen."""

import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from flows.admission import Ran
from flows.effects import deletes, reads, writes
from flows.envelope import Status
from flows.operation import Flow, flow
from flows.world import World
from tests.flows.escapes.passing import SEEN_BY_NOBODY, SEEN_BY_THE_ORACLE
from tests.flows.escapes.reaches import OUTSIDE
from tests.flows.escapes.statements import UNDECLARED, UNSEEN_SQL, Act
from tests.flows.escapes.tables import VIEW, Ledger, Parent, Place, Watched, create_escape_tables, rows
from tests.flows.house import House, Nothing, SetClock, Value, open_house
from tests.support.oracle import declared_by, watching

pytestmark = pytest.mark.db
EFFECTS = [
    writes("ledger", Ledger),
    writes("parents", Parent),
    deletes("parents", Parent),
    writes("watched", Watched),
    reads("view", VIEW),
]
REFUSED = [
    (code, name, act)
    for code, acts in (("unseen_sql", UNSEEN_SQL), ("undeclared_effect", UNDECLARED), ("outside_reach", OUTSIDE))
    for name, act in acts.items()
]


@pytest.fixture(scope="module")
def house(new_database_url: Callable[[Path], str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    """One house for all escapes: none of them may change it."""
    folder = tmp_path_factory.mktemp("escapes")
    with open_house(new_database_url(folder), folder, SetClock(), pause=lambda _longest: None) as made:
        create_escape_tables(made.database)
        yield made


@pytest.fixture
def place(house: House, tmp_path: Path) -> Iterator[Place]:
    """A folder with one file, and a listener."""
    folder = tmp_path / "place"
    folder.mkdir()
    (folder / "kept.txt").write_text("kept")
    with (
        socket.create_server(("127.0.0.1", 0)) as listener,
        socket.create_connection(listener.getsockname()) as connected,
        (folder / "kept.txt").open("a") as opened,
    ):
        peer, _ = listener.accept()
        listener.setblocking(False)
        peer.setblocking(False)
        with peer:
            yield Place(house.database, folder, listener, opened, connected, peer)


def escaping(act: Act, place: Place) -> Flow:
    @flow(id="flow.escape", title="Escape", effects=EFFECTS, asks="Escape")
    def escape(_params: Nothing, world: World) -> Value:
        """Try it."""
        act(world, place)
        return Value(value=1)

    return escape


def test_there_are_more_than_forty() -> None:
    assert len(REFUSED) >= 100


@pytest.mark.parametrize(("code", "name", "act"), REFUSED, ids=[f"{code}-{name}" for code, name, _ in REFUSED])
def test_an_escape_is_refused_and_changes_nothing(house: House, place: Place, code: str, name: str, act: Act) -> None:
    before = rows(house.database), place.outside()
    confirmation_id = house.confirm()

    ran: Ran = house.write(escaping(act, place), confirmation_id=confirmation_id)

    assert (ran.status, ran.code) == (Status.FAILED, code), name
    assert (rows(house.database), place.outside()) == before
    assert house.run(ran.run_id).status == "failed"
    assert house.confirmation_state(confirmation_id) == "spent"


@pytest.mark.parametrize("name", SEEN_BY_THE_ORACLE)
def test_what_only_the_oracle_sees_is_seen_by_it(house: House, place: Place, name: str) -> None:
    escape = SEEN_BY_THE_ORACLE[name]
    if escape.only_on not in ("", house.database.writing.dialect.name):
        pytest.skip("only PostgreSQL has functions of its own")
    declared = escaping(escape.act, place)

    with watching(house.database) as touched:
        ran = house.write(declared)

    assert (ran.status, escape.why != "") == (Status.DONE, True)
    assert touched.beyond(declared_by(declared)) == escape.beyond


@pytest.mark.parametrize("name", SEEN_BY_NOBODY)
def test_what_nobody_sees_is_known(house: House, place: Place, name: str) -> None:
    before = place.outside()

    ran = house.write(escaping(SEEN_BY_NOBODY[name].act, place))

    assert ran.status is Status.DONE
    assert place.outside() != before
