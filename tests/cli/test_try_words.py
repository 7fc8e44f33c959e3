"""What `countersign try` reads from the command line and writes to the terminal."""

import io
import json
import subprocess
import sys

import pytest
from click.testing import CliRunner
from mcp_types import CallToolResult, Tool
from mcp_types import TextContent as Text

from cli.trying import command
from cli.trying.arguments import read_arguments
from cli.trying.display import result_text, tool_sheet, tools_table, value_text
from cli.trying.refusals import WrongArguments
from cli.trying.text import block, document, line
from tests.support.server import REPO

REFUND = {
    "type": "object",
    "properties": {
        "order_id": {"type": "integer", "description": "Its number."},
        "reason": {"type": "string"},
        "share": {"type": "number"},
        "notify": {"type": "boolean"},
        "lines": {"type": "array"},
        "about": {"type": "object"},
        "note": {"anyOf": [{"type": "string"}, {"type": "null"}]},
        "limit": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
        "speed": {"$ref": "#/$defs/Speed"},
        "free": {},
    },
    "required": ["order_id", "reason"],
    "$defs": {"Speed": {"enum": ["slow", "fast"], "type": "string"}},
}
NEEDED = ["order_id=1042", "reason=damaged"]
EVIL = "a\x1b]0;owned\x07b\x9b31mc\rd\u202ee\x7ff\u2028g\tz"


@pytest.mark.parametrize(
    ("word", "value"),
    [
        ("reason=12", "12"),
        ("reason=a=b", "a=b"),
        ("reason=", ""),
        ("share=0.5", 0.5),
        ("share=2", 2),
        ("notify=true", True),
        ('lines=[1, "x"]', [1, "x"]),
        ('about={"a": null}', {"a": None}),
        ("note=null", "null"),
        ("note:=null", None),
        ("limit=7", 7),
        ("limit=null", None),
        ("speed=fast", "fast"),
        ("free=12", "12"),
        ("free:=12", 12),
        ('reason:="quoted"', "quoted"),
    ],
)
def test_a_word_is_read_by_the_schema(word, value):
    name = word.replace(":=", "=").partition("=")[0]
    words = [one for one in NEEDED if not one.startswith(f"{name}=")]

    assert read_arguments(REFUND, [*words, word])[name] == value


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["order_id=ten"], 'order_id must be an integer, not "ten"'),
        (["order_id=1.5"], "order_id must be an integer, not 1.5"),
        (["order_id=NaN"], "order_id must be an integer"),
        (["order_id=true"], "order_id must be an integer, not true"),
        (["notify=yes"], "notify must be a boolean"),
        (["lines={}"], "lines must be an array, not {}"),
        (["about=[]"], "about must be an object, not []"),
        (["speed=warp"], 'speed must be one of ["slow", "fast"], not "warp"'),
        (["reason:=5"], "reason must be a string, not 5"),
        (["reason:=x"], "reason must be JSON"),
        (["reasn=x"], "there is no argument reasn (did you mean reason?)"),
        (["reason=a", "reason=b"], "reason is given twice"),
        (["damaged"], "'damaged' isn't like name=value"),
        (["=x"], "isn't like name=value"),
        (["lines=" + "[" * 100_000], "lines must be an array"),
        ([], "missing: order_id, reason"),
    ],
)
def test_what_does_not_fit_is_said_with_the_right_names(words, said):
    with pytest.raises(WrongArguments) as refused:
        read_arguments(REFUND, words)

    assert said in refused.value.public
    assert "The tool takes: order_id, reason, share?" in refused.value.public


def test_every_fault_is_said_at_once():
    with pytest.raises(WrongArguments) as refused:
        read_arguments(REFUND, ["order_id=x", "colour=red", "damaged"])

    for said in ("order_id must be", "no argument colour", "'damaged'", "missing: reason"):
        assert said in refused.value.public


def test_all_arguments_come_as_one_json_object_too():
    assert read_arguments(REFUND, ["reason=x"], '{"order_id": 7}') == {"order_id": 7, "reason": "x"}


@pytest.mark.parametrize("given", ["[1]", "{", '{"order_id": "7", "reason": "x"}', '{"order_id": NaN}', "[" * 100_000])
def test_a_json_object_is_checked_as_well(given):
    with pytest.raises(WrongArguments):
        read_arguments(REFUND, [], given)


def test_a_schema_that_allows_more_names_gets_them():
    open_schema = {"properties": {}, "additionalProperties": True}

    assert read_arguments(open_schema, ["any=1"]) == {"any": "1"}


HOSTILE_SCHEMAS = [
    {"properties": {"a": {"$ref": "#/properties/a"}}},
    {"properties": {"a": {"$ref": "https://attacker.example/schema.json"}}},
    {"properties": {"a": {"$ref": "file:///etc/passwd"}}},
    {"properties": {"a": {"type": ["string", 5, None]}}},
    {"properties": {"a": {"anyOf": "no list"}}},
    {"properties": {"a": {"pattern": "(a+)+$", "type": "string"}}},
    {"properties": {"a": True}, "required": "a"},
    {"properties": ["a"], "additionalProperties": True},
]


@pytest.mark.parametrize("schema", HOSTILE_SCHEMAS)
def test_a_hostile_schema_costs_nothing_and_is_never_fetched(schema):
    text = "a" * 40 + "!"

    assert read_arguments(schema, [f"a={text}"]) == {"a": text}


def test_a_strangers_text_is_one_printable_line():
    assert line(EVIL).isprintable()
    assert line("one\n\n two") == "one two"
    assert line("x" * 100, 10) == "x" * 9 + "…"


def test_a_block_keeps_its_lines_and_nothing_else():
    shown = block(f"first\r\nsecond {EVIL}\n")

    assert shown.split("\n")[0] == "first"
    assert all(one.isprintable() for one in shown.split("\n"))


def test_a_document_is_the_same_json_without_a_live_sign():
    value = {EVIL: [EVIL, "\U000e0001", "Zürich 😀", None]}
    shown = document(value)

    assert json.loads(shown) == value
    assert "Zürich 😀" in shown
    assert all(letter.isprintable() or letter == "\n" for letter in shown)


def test_a_list_of_objects_is_a_table_and_an_object_is_lines():
    orders = [{"number": 1, "name": "Ada", "more": {"a": 1}}, {"number": 22, "paid": True}]
    shown = value_text({"status": "done", "orders": orders, "empty": [], "inside": {"x": None}})

    assert shown.split("\n") == [
        "status: done",
        "orders:",
        "  number  name  more      paid",
        '  1       Ada   {"a": 1}  -',
        "  22      -     -         true",
        "empty: []",
        "inside:",
        "  x: -",
    ]


def test_a_table_for_people_has_an_end_to_its_width():
    rows = [{f"column{number}": "x" * 500 for number in range(30)}]
    shown = value_text(rows)

    assert "(18 more columns: --json has them)" in shown
    assert max(map(len, shown.split("\n"))) < 12 * 70


def test_deep_values_and_long_keys_stay_short():
    value = {}
    for _ in range(150):
        value = {"k" * 1000: value}

    assert len(value_text(value)) < 3000


def test_a_text_that_repeats_the_data_is_shown_once():
    data = {"orders": [{"number": 7}]}
    result = CallToolResult(
        content=[Text(type="text", text="Done."), Text(type="text", text=json.dumps(data))], structured_content=data
    )

    assert result_text(result) == "Done.\n\norders:\n  number\n  7"


def test_other_kinds_of_content_are_named():
    parts = [
        {"type": "image", "data": "A" * 16000, "mimeType": "image/png"},
        {"type": "audio", "data": "AAAA", "mimeType": "audio/wav"},
        {"type": "resource_link", "uri": "file:///x", "name": "x"},
        {"type": "resource", "resource": {"uri": "file:///y", "text": "inside"}},
        {"type": "resource", "resource": {"uri": "file:///z", "blob": "AAAA"}},
    ]
    shown = result_text(CallToolResult.model_validate({"content": parts})).split("\n\n")

    assert shown == [
        "image, 12 kB",
        "audio, 3 bytes",
        "link: file:///x",
        "resource file:///y\ninside",
        "resource file:///z, 3 bytes",
    ]
    assert result_text(CallToolResult(content=[])) == "(an empty answer)"


def test_a_hostile_tool_is_shown_without_its_signs():
    tool = Tool(
        name=EVIL,
        title=EVIL,
        description=EVIL,
        input_schema={
            "properties": {EVIL: {"type": EVIL, "description": EVIL}, "e": {"enum": [EVIL]}},
            "required": [EVIL],
        },
    )
    result = CallToolResult(
        content=[Text(type="text", text=EVIL)], structured_content={EVIL: [{EVIL: EVIL}], "x": EVIL}
    )

    for shown in (tools_table([tool]), tool_sheet(tool), result_text(result)):
        assert all(one.isprintable() for one in shown.split("\n")), ascii(shown)


def test_other_commands_never_load_the_client():
    program = "import sys, cli.main; sys.exit(any(name in sys.modules for name in ('mcp', 'httpx2', 'uvicorn')))"
    done = subprocess.run([sys.executable, "-c", program], cwd=REPO, capture_output=True, check=False)

    assert done.returncode == 0, done.stderr


class Tty(io.StringIO):
    """Standard output that is a terminal."""

    def isatty(self):
        return True


@pytest.mark.parametrize(
    ("out", "variables", "bold"),
    [
        (Tty(), {}, True),
        (io.StringIO(), {}, False),
        (Tty(), {"NO_COLOR": "1"}, False),
        (Tty(), {"TERM": "dumb"}, False),
    ],
)
def test_colours_are_for_terminals_that_want_them(monkeypatch, out, variables, bold):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("sys.stdout", out)

    assert (command._bold("x") == "\x1b[1mx\x1b[0m") is bold


def test_settings_that_cannot_be_used_are_said_and_no_need(monkeypatch, capsys):
    monkeypatch.setenv("COUNTERSIGN_PORT", "many")

    assert command._own_address() == "http://localhost:6535/mcp"
    assert "COUNTERSIGN_PORT" in capsys.readouterr().err


def test_the_exit_statuses_are_in_the_help():
    told = CliRunner().invoke(command.command(), ["--help"]).output

    for status in (
        "0    done",
        "1    the tool",
        "2    wrong usage",
        "3    not confirmed",
        "4    can't",
        "130  interrupted",
    ):
        assert status in told
