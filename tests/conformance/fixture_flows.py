"""What the public suite names: tools, resources, prompts; loaded beside the demo shop through COUNTERSIGN_FLOWS."""

import base64

from flows.content import Audio, Embedded, Image, Text
from flows.operation import FlowError, Params, Result, flow
from flows.prompt import Argument, Prompt
from flows.world import World

# One red pixel.
PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg=="
)


# Two silent samples.
WAV = base64.b64decode("UklGRigAAABXQVZFZm10IBAAAAABAAEAQB8AAIA+AAACABAAZGF0YQQAAAAAAAAA")


class Nothing(Params):
    """The suite calls its tools without arguments."""


class Said(Result):
    """One sentence for the suite, which reads only that there is a result."""

    text: str


class Picture(Result):
    """A picture."""

    picture: Image


class Sound(Result):
    """A sound."""

    sound: Audio


class Paper(Result):
    """A document."""

    paper: Embedded


class Page(Result):
    """A text as such."""

    page: Text


class Mixed(Result):
    """One of each."""

    words: Text
    picture: Image
    paper: Embedded


class Named(Params):
    """Which one."""

    id: str


class Data(Result):
    """What is at a template's address."""

    id: str
    template_test: bool
    data: str


class AlwaysFails(FlowError):
    """What the suite wants to see fail."""

    code = "test_error"
    public = "This tool intentionally returns an error for testing."


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


@flow(id="test.simple_text", title="One sentence", effects=[])
def test_simple_text(params: Nothing, world: World) -> Said:
    """For the conformance suite: a sentence."""
    return Said(text="This is a simple text response for testing.")


@flow(id="test.image_content", title="A picture", effects=[], resource="test://static-binary")
def test_image_content(params: Nothing, world: World) -> Picture:
    """For the conformance suite: a picture, as a tool and as a resource."""
    return Picture(picture=Image(data=PNG))


@flow(id="test.audio_content", title="A sound", effects=[])
def test_audio_content(params: Nothing, world: World) -> Sound:
    """For the conformance suite: a sound."""
    return Sound(sound=Audio(data=WAV))


@flow(id="test.embedded_resource", title="A document", effects=[])
def test_embedded_resource(params: Nothing, world: World) -> Paper:
    """For the conformance suite: a document."""
    return Paper(paper=Embedded(uri="test://embedded-resource", text="This is an embedded resource content."))


@flow(id="test.multiple_content_types", title="One of each", effects=[])
def test_multiple_content_types(params: Nothing, world: World) -> Mixed:
    """For the conformance suite: a sentence, a picture and a document."""
    paper = Embedded(uri="test://mixed-content-resource", text='{"test":"data","value":123}', mime="application/json")
    return Mixed(words=Text(text="Multiple content types test:"), picture=Image(data=PNG), paper=paper)


@flow(id="test.error_handling", title="Always fails", effects=[], errors=[AlwaysFails])
def test_error_handling(params: Nothing, world: World) -> Said:
    """For the conformance suite: never anything but its declared failure."""
    raise AlwaysFails


@flow(id="test.static_text", title="A page", effects=[], resource="test://static-text")
def static_text(params: Nothing, world: World) -> Page:
    """For the conformance suite: a resource that is a text."""
    return Page(page=Text(text="This is the content of the static text resource."))


@flow(id="test.template", title="Data by id", effects=[], resource="test://template/{id}/data")
def template(params: Named, world: World) -> Data:
    """For the conformance suite: resources by a template."""
    return Data(id=params.id, template_test=True, data=f"Data for ID: {params.id}")


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
