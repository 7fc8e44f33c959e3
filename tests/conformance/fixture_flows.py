"""The tools and prompts that the public suite names; loaded beside the demo shop through COUNTERSIGN_FLOWS."""

import base64

from flows.content import Embedded, Image, Text
from flows.operation import Params, Result, flow
from flows.prompt import Argument, Prompt
from flows.world import World

# One red pixel.
PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg=="
)


class Nothing(Params):
    """The suite calls its tools without arguments."""


class Said(Result):
    """One sentence for the suite, which reads only that there is a result."""

    text: str


@flow(id="test.missing_capability", title="Needs sampling", effects=[], client_capabilities=frozenset({"sampling"}))
def test_missing_capability(params: Nothing, world: World) -> Said:
    """For the conformance suite: never runs for a client that hasn't declared sampling."""
    return Said(text="The client declared sampling.")


@flow(id="test.streaming_elicitation", title="Answers at once", effects=[])
def test_streaming_elicitation(params: Nothing, world: World) -> Said:
    """For the conformance suite: answers without any request of the server's own."""
    return Said(text="Nothing was asked.")


@flow(id="test.logging_tool", title="Logs nothing to the client", effects=[])
def test_logging_tool(params: Nothing, world: World) -> Said:
    """For the conformance suite: answers without log notifications, which nobody asked for."""
    return Said(text="Nothing was logged.")


simple_prompt = Prompt(
    name="test_simple_prompt",
    title="A simple prompt",
    description="For the conformance suite: one sentence.",
    messages=(Text(text="This is a simple prompt for testing."),),
)
prompt_with_arguments = Prompt(
    name="test_prompt_with_arguments",
    title="A prompt with arguments",
    description="For the conformance suite: two arguments.",
    arguments=(Argument(name="arg1", description="The first."), Argument(name="arg2", description="The second.")),
    messages=(Text(text="Prompt with arguments: arg1={arg1}, arg2={arg2}"),),
)
prompt_with_embedded_resource = Prompt(
    name="test_prompt_with_embedded_resource",
    title="A prompt with a document",
    description="For the conformance suite: a document under the address that it is given.",
    arguments=(Argument(name="resourceUri", description="The address."),),
    messages=(
        Embedded(uri="{resourceUri}", text="Embedded resource content for testing."),
        Text(text="Please process the embedded resource above."),
    ),
)
prompt_with_image = Prompt(
    name="test_prompt_with_image",
    title="A prompt with a picture",
    description="For the conformance suite: a picture.",
    messages=(Image(data=PNG), Text(text="Please analyze the image above.")),
)
