"""The tools that the public suite calls by name; loaded beside the demo shop through COUNTERSIGN_FLOWS."""

from flows.operation import Params, Result, flow
from flows.world import World


class Nothing(Params):
    """The suite calls its tools without arguments."""


class Text(Result):
    """One sentence for the suite, which reads only that there is a result."""

    text: str


@flow(id="test.missing_capability", title="Needs sampling", effects=[], client_capabilities=frozenset({"sampling"}))
def test_missing_capability(params: Nothing, world: World) -> Text:
    """For the conformance suite: never runs for a client that hasn't declared sampling."""
    return Text(text="The client declared sampling.")


@flow(id="test.streaming_elicitation", title="Answers at once", effects=[])
def test_streaming_elicitation(params: Nothing, world: World) -> Text:
    """For the conformance suite: answers without any request of the server's own."""
    return Text(text="Nothing was asked.")


@flow(id="test.logging_tool", title="Logs nothing to the client", effects=[])
def test_logging_tool(params: Nothing, world: World) -> Text:
    """For the conformance suite: answers without log notifications, which nobody asked for."""
    return Text(text="Nothing was logged.")
