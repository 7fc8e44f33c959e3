"""What flows hand over beside their result: each kind once, in the words of the revision, under the cap."""

import base64
import json
from typing import Annotated, Any

import jsonschema
import pytest
from mcp_types.methods import validate_server_result
from pydantic import Field

from flows.content import Audio, Embedded, Image, Link, Text, contents_of
from flows.operation import Flow, FlowError, Params, Result, Secret, flow
from tests.mcp_provider.shop import VERSIONS, Shop, open_shop

PNG = b"\x89PNG-picture"


class Nothing(Params):
    """No arguments."""


class Number(Params):
    """Which one."""

    number: Annotated[str, Field(max_length=5)]


class SoldOut(FlowError):
    """There is none left."""

    code = "sold_out"
    public = "There is none left."


class Everything(Result):
    """One of each, and some more."""

    count: int
    words: Text
    pictures: tuple[Image, ...]
    sound: Audio
    paper: Embedded
    link: Link
    nothing: Image | None = None


class Picture(Result):
    """A picture."""

    picture: Image


class Hidden(Result):
    """A picture that nobody may see."""

    picture: Annotated[Image, Secret()]


class Facts(Result):
    """No content."""

    number: str


def everything() -> Everything:
    return Everything(
        count=2,
        words=Text(text="Words of the flow"),
        pictures=(Image(data=PNG), Image(data=b"second", mime="image/webp")),
        sound=Audio(data=b"RIFF"),
        paper=Embedded(uri="shop://paper", text="The whole paper"),
        link=Link(uri="https://shop.example/", name="The shop"),
    )


@flow(id="show.everything", title="Show everything", effects=[])
def show_everything(params: Nothing, world: Any) -> Everything:
    """Show one of each kind."""
    return everything()


@flow(id="show.picture", title="Show a picture", effects=[], resource="shop://picture")
def show_picture(params: Nothing, world: Any) -> Picture:
    """Show a picture."""
    return Picture(picture=Image(data=PNG))


@flow(id="show.large", title="Show a large picture", effects=[])
def show_large(params: Nothing, world: Any) -> Picture:
    """Show a picture that is over the cap once it is written as text."""
    return Picture(picture=Image(data=bytes(90_000)))


@flow(
    id="show.facts",
    title="Show facts",
    effects=[],
    resource="shop://facts/{number}",
    scope="shop:facts",
    errors=[SoldOut],
)
def show_facts(params: Number, world: Any) -> Facts:
    """Show facts."""
    if params.number == "none":
        raise SoldOut
    return Facts(number=params.number)


FLOWS: tuple[Flow, ...] = (show_everything, show_picture, show_large, show_facts)


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Any:
    with open_shop(tmp_path_factory.mktemp("shop"), catalogue=FLOWS) as opened:
        yield opened


@pytest.mark.parametrize("version", VERSIONS)
def test_each_kind_travels_once_in_the_words_of_the_revision(shop: Shop, version: str) -> None:
    answer = shop.agent().as_version(version).call("show_everything")
    validate_server_result("tools/call", version, answer.result)
    data, words, first, second, sound, paper, link = answer.result["content"]

    assert json.loads(data["text"])["count"] == 2
    assert words == {"type": "text", "text": "Words of the flow"}
    assert first == {"type": "image", "data": base64.b64encode(PNG).decode(), "mimeType": "image/png"}
    assert second["mimeType"] == "image/webp"
    assert sound["type"] == ("audio" if version >= "2025-03-26" else "text")
    assert paper["resource"] == {"uri": "shop://paper", "mimeType": "text/plain", "text": "The whole paper"}
    assert link["type"] == ("resource_link" if version >= "2025-06-18" else "text")
    for once in (base64.b64encode(PNG), b"The whole paper"):
        assert answer.raw.count(once) == 1


def test_the_structured_result_fits_its_schema_without_the_bytes(shop: Shop) -> None:
    agent = shop.agent()
    [tool] = [one for one in agent.request("tools/list").result["tools"] if one["name"] == "show_everything"]
    data = agent.call("show_everything").data

    jsonschema.validate(data, tool["outputSchema"])
    assert data["pictures"] == [{"mime": "image/png"}, {"mime": "image/webp"}]
    assert data["paper"] == {"uri": "shop://paper", "mime": "text/plain"}


def test_content_counts_towards_the_cap_as_it_travels(shop: Shop) -> None:
    result = shop.agent().call("show_large").result

    assert result["isError"] is True
    assert "result_too_large" in str(result["content"])


def test_content_is_found_in_a_result_s_own_fields_and_secret_content_never() -> None:
    kinds = [type(one).__name__ for one in contents_of(everything())]

    assert kinds == ["Text", "Image", "Image", "Audio", "Embedded", "Link"]
    assert contents_of(Hidden(picture=Image(data=PNG))) == ()


def test_a_flow_that_reads_is_read_by_its_address_too(shop: Shop) -> None:
    agent = shop.agent("alice", "shop:facts")
    listed = {one["uri"]: one for one in agent.request("resources/list").result["resources"]}
    forms = [one["uriTemplate"] for one in agent.request("resources/templates/list").result["resourceTemplates"]]

    picture = agent.request("resources/read", {"uri": "shop://picture"}).result["contents"]
    facts = agent.request("resources/read", {"uri": "shop://facts/7.a"}).result["contents"]

    assert listed["shop://picture"]["title"] == "Show a picture"
    assert forms[-1] == "shop://facts/{number}"
    assert picture == [{"uri": "shop://picture", "mimeType": "image/png", "blob": base64.b64encode(PNG).decode()}]
    assert facts == [{"uri": "shop://facts/7.a", "mimeType": "application/json", "text": '{"number":"7.a"}'}]


def test_its_rights_are_those_of_the_flow(shop: Shop) -> None:
    agent = shop.agent("bob")

    answer = agent.request("resources/read", {"uri": "shop://facts/7"})

    assert answer.status == 403
    assert "shop:facts" in answer.headers["www-authenticate"]
    assert "shop://facts/{number}" not in str(agent.request("resources/templates/list").result)


def test_its_failure_is_told_in_its_own_words(shop: Shop) -> None:
    answer = shop.agent("alice", "shop:facts").request("resources/read", {"uri": "shop://facts/none"})

    assert (answer.status, answer.error["code"], answer.error["message"]) == (200, -32603, "There is none left.")
    assert answer.error["data"]["code"] == "sold_out"


def test_its_variable_is_known_and_has_nothing_to_offer(shop: Shop) -> None:
    def complete(variable: str) -> dict[str, Any]:
        ref = {"type": "ref/resource", "uri": "shop://facts/{number}"}
        params = {"ref": ref, "argument": {"name": variable, "value": ""}}
        return dict(shop.agent().request("completion/complete", params).json)

    assert complete("number")["result"]["completion"]["values"] == []
    assert complete("other")["error"]["code"] == -32602


@pytest.mark.parametrize(
    "uri",
    ["shop://facts/", "shop://facts/longer", "shop://facts/a/b", "shop://facts/%41", "shop://picture/", "shop://"],
)
def test_what_isnt_of_an_address_s_form_is_unknown(shop: Shop, uri: str) -> None:
    answer = shop.agent("alice", "shop:facts").request("resources/read", {"uri": uri})

    assert (answer.error["data"]["code"], answer.error["data"]["uri"]) == ("unknown_resource", uri)
