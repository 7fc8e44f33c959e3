"""`search` and `fetch`: one way to find and to read what there is, in the shapes that ChatGPT's research asks for.

An id is an address (`countersign://flows/orders.list`), so what was found can be read as a resource as well.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any

import orjson
from pydantic import Field

from core.clock import iso
from core.documents import Documents
from core.settings import Settings
from flows.builtin import EFFECTS_GROUP, RUNS, SCHEMA_GROUP, TRACES_GROUP, NoSuchRun
from flows.caller import Caller
from flows.operation import Flow, FlowError, FromPeople, Params, Result, Source, flow
from flows.registry import Registry
from flows.trace import RunLine, Traces
from flows.world import World
from policy.addresses import Address, Kind, find_address
from policy.builtin import MANIFEST_GROUP
from policy.scopes import Scopes

MOST_RESULTS = 20
RECENT_RUNS = 100
IN_TITLE = 4  # how much more a word counts in a title than in a text
WORD = re.compile(r"\w+")


class NothingThere(FlowError):
    """Nothing that this connection may read has this id or address."""

    code = "unknown_resource"
    public = "There is nothing by that id. search finds what there is."
    remedy = "Take an id from the results of search, or an address from resources/list."


class SearchParams(Params):
    """What is looked for."""

    query: Annotated[str, Field(min_length=1, max_length=500)]


class Found(Result):
    """One thing that was found."""

    id: str
    title: str
    url: str


class SearchResults(Result):
    """What was found, the best first."""

    results: tuple[Found, ...]


class FetchParams(Params):
    """Names one thing."""

    id: Annotated[str, Field(min_length=1, max_length=200, description="An id from the results of search.")]


class Fetched(Result):
    """One thing as a whole."""

    id: str
    title: str
    text: Annotated[str, FromPeople()]
    url: str
    metadata: dict[str, str]


@dataclass(frozen=True, slots=True)
class Entry:
    """One thing that can be found, and the text in which words are looked for."""

    found: Found
    text: str


class Shelf:
    """What a caller may find and read; each thing is what the built-in flow of its kind answers."""

    def __init__(
        self,
        *,
        registry: Callable[[], Registry],
        scopes: Callable[[], Scopes],
        traces: Traces,
        documents: Documents,
        settings: Settings,
    ) -> None:
        self._registry = registry
        self._scopes = scopes
        self._traces = traces
        self._documents = documents
        self._base_url = settings.base_url
        self._read: dict[Kind, Callable[[Address, World], Fetched]] = {
            Kind.MANIFEST: self._read_manifest,
            Kind.FLOW: self._read_flow,
            Kind.RUN: self._read_run,
            Kind.DOC: self._read_document,
        }

    def entries(self, caller: Caller) -> Iterator[Entry]:
        """Give what `caller` may find: the flows of their role, the documentation, their own newest runs."""
        held = self._scopes().of_role(caller.role)
        for one in self._registry():
            if not self._scopes().missing(one, held):
                yield Entry(self._found(Address(Kind.FLOW, one.id), one.title), f"{one.id} {one.summary}")
        for page in self._documents:
            yield Entry(self._found(Address(Kind.DOC, page.name), page.title), page.text)
        if caller.scopes & TRACES_GROUP:
            for run in self._traces.own(caller, self._application_flows(), limit=RECENT_RUNS):
                yield Entry(self._found(Address(Kind.RUN, run.id), self._run_title(run)), f"{run.id} {run.flow_id}")

    def fetch(self, wanted: str, world: World) -> Fetched:
        """Give one thing; raise NothingThere for what isn't there, and for what the caller may not read."""
        address = find_address(wanted)
        if address is None:
            raise NothingThere
        return self._read[address.kind](address, world)

    def _read_manifest(self, address: Address, world: World) -> Fetched:
        answer = self._answer("manifest.get", {}, world)
        return self._fetched(address, "What can be done here", _written(answer))

    def _read_flow(self, address: Address, world: World) -> Fetched:
        flows = self._answer("manifest.get", {"query": address.name}, world)["flows"]
        entry = next((one for one in flows if one["flowId"] == address.name), None)
        if entry is None:
            raise NothingThere
        more = (("schema.get", SCHEMA_GROUP), ("effects.get", EFFECTS_GROUP))
        for flow_id, group in more:
            if world.caller.scopes & group:
                entry |= self._answer(flow_id, {"flowId": address.name}, world)
        granted = "true" if entry["granted"] else "false"
        return self._fetched(address, entry["title"], _written(entry), tool=entry["tool"], granted=granted)

    def _read_run(self, address: Address, world: World) -> Fetched:
        if not world.caller.scopes & TRACES_GROUP:
            raise NothingThere
        try:
            run = self._answer("traces.get", {"runId": address.name}, world)
        except NoSuchRun:
            raise NothingThere from None
        told = {"flow": run["flowId"], "status": run["status"], "started": run["startedAt"]}
        return self._fetched(address, f"Run of {run['flowId']}", _written(run), **told)

    def _read_document(self, address: Address, _world: World) -> Fetched:
        page = self._documents.find(address.name)
        if page is None:
            raise NothingThere
        return self._fetched(address, page.title, page.text)

    def _answer(self, flow_id: str, arguments: dict[str, str], world: World) -> dict[str, Any]:
        """Give what another of our own read-only flows answers the same caller."""
        asked = self._registry().get(flow_id)
        result: Result = asked.function(asked.params.model_validate(arguments), world)
        return result.model_dump(mode="json", by_alias=True, exclude_none=True)

    def _application_flows(self) -> list[str]:
        return [one.id for one in self._registry() if one.source is not Source.BUILTIN]

    def _run_title(self, run: RunLine) -> str:
        of = self._registry().find(run.flow_id)
        return f"{of.title if of else run.flow_id}: {run.status}, {iso(run.started_at)}"

    def _found(self, address: Address, title: str) -> Found:
        return Found(id=str(address), title=title, url=self._url(address))

    def _fetched(self, address: Address, title: str, text: str, **told: str) -> Fetched:
        metadata = {"kind": address.kind.value, **told}
        return Fetched(id=str(address), title=title, text=text, url=self._url(address), metadata=metadata)

    def _url(self, address: Address) -> str:
        """Give the console's page about it."""
        if address.kind is Kind.MANIFEST:
            return f"{self._base_url}/flows"
        if address.kind is Kind.FLOW:
            return f"{self._base_url}/flows#flow-{address.name.replace('.', '_')}"
        return f"{self._base_url}/{address.kind}/{address.name}"


def search_flows(shelf: Shelf) -> list[Flow]:
    """Give the two flows that find and read."""

    @flow(id="search", title="Search what there is here", effects=[RUNS])
    def search(params: SearchParams, world: World) -> SearchResults:
        """Find flows, documentation and your own recent runs by words; fetch reads them. Not for the application's
        data: its own tools look that up.
        """
        return SearchResults(results=tuple(best(params.query, list(shelf.entries(world.caller)))))

    @flow(id="fetch", title="Read what was found", effects=[RUNS], errors=(NothingThere,))
    def fetch(params: FetchParams, world: World) -> Fetched:
        """Read one result of search as a whole: a flow, a page of the documentation, or a run."""
        return shelf.fetch(params.id, world)

    return [replace(one, source=Source.BUILTIN, group=MANIFEST_GROUP) for one in (search, fetch)]


def best(query: str, entries: Sequence[Entry]) -> list[Found]:
    """Give the entries with the words of `query`, the best first."""
    places = ranked(query, [(entry.found.title, entry.text) for entry in entries])
    return [entries[place].found for place in places[:MOST_RESULTS]]


def ranked(query: str, texts: Sequence[tuple[str, str]]) -> list[int]:
    """Give the places of those titles and texts that have words of `query`, the best first.

    A word counts more in a title, and less the more of them have it.
    """
    words = dict.fromkeys(WORD.findall(query.casefold()))
    folded = [(title.casefold(), text.casefold()) for title, text in texts]
    having = Counter(word for word in words for title, text in folded if word in title or word in text)

    def score(title: str, text: str) -> float:
        return sum((IN_TITLE * (word in title) + (word in text)) / having[word] for word in words if having[word])

    scores = [score(*text) for text in folded]
    return sorted((place for place, worth in enumerate(scores) if worth > 0), key=lambda place: -scores[place])


def _written(data: dict[str, Any]) -> str:
    return orjson.dumps(data, option=orjson.OPT_INDENT_2).decode()
