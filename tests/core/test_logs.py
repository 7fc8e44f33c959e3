import json
import logging

import pytest

from core.logs import JsonLines, mask, reference


@pytest.mark.parametrize(
    "text",
    [
        "token cs_at_SECRETSECRETSECRET issued",
        "Authorization: Bearer SECRETSECRETSECRET",
        "code_verifier=SECRETSECRETSECRET&x=1",
        "https://a/cb?code=SECRETSECRETSECRET&state=1",
        "{'password=SECRETSECRETSECRET'}",
    ],
)
def test_what_looks_like_a_secret_never_reaches_a_line(text):
    assert "SECRET" not in mask(text)


def test_a_line_is_json_with_process_and_reference():
    reference.set("abc")
    record = logging.LogRecord("x", logging.INFO, __file__, 1, "hello %s", ("cs_rt_secret",), None)

    line = json.loads(JsonLines().format(record))

    assert (line["message"], line["reference"], line["level"]) == ("hello [secret]", "abc", "info")
    assert isinstance(line["pid"], int)
