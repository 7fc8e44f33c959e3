import json

import pytest
from flask import Flask

from core.errors import NotFound, TooMany
from core.http import register_http
from core.ids import SystemChance
from core.settings import load_settings


def page(status: int, code: str, message: str, reference: str) -> str:
    return f"<p>{status} {code} {message} {reference}</p>"


def app_with(tmp_path, base_url: str) -> Flask:
    app = Flask(__name__)
    environ = {"COUNTERSIGN_SECRET_KEYS": "k" * 40, "COUNTERSIGN_BASE_URL": base_url}
    register_http(app, load_settings(environ, folder=tmp_path), SystemChance(), page)

    @app.route("/mcp", endpoint="mcp")
    @app.route("/runs", endpoint="runs")
    def fails():
        raise NotFound

    @app.route("/oauth/token")
    def breaks():
        raise ValueError("secret detail")

    @app.route("/oauth/register")
    def limits():
        raise TooMany(retry_after=7)

    return app


@pytest.fixture
def browser(tmp_path):
    return app_with(tmp_path, "http://localhost:6535").test_client()


def test_a_person_gets_a_page_and_a_program_gets_json(browser):
    assert browser.get("/runs").mimetype == "text/html"
    assert browser.get("/mcp").mimetype == "application/json"
    assert browser.get("/oauth/nothing").mimetype == "application/json"


def test_a_surprise_says_nothing_of_the_inside(browser, caplog):
    answer = browser.get("/oauth/token")

    assert answer.status_code == 500
    assert b"secret detail" not in answer.data
    assert json.loads(answer.data)["reference"] == answer.headers["X-Request-Id"]
    assert "secret detail" in caplog.text


def test_a_limit_says_when_to_come_back(browser):
    answer = browser.get("/oauth/register")

    assert (answer.status_code, answer.headers["Retry-After"]) == (429, "7")


def test_pages_can_not_be_framed_scripted_or_kept(browser):
    headers = browser.get("/runs").headers

    assert "frame-ancestors 'none'" in headers["Content-Security-Policy"]
    assert "form-action" not in headers["Content-Security-Policy"]
    assert (headers["Cache-Control"], headers["Referrer-Policy"]) == ("no-store", "no-referrer")


def test_under_a_prefix_it_answers_with_and_without_it(tmp_path):
    browser = app_with(tmp_path, "https://app.example.com/team/a").test_client()

    assert browser.get("/team/a/mcp").status_code == browser.get("/mcp").status_code == 404
    assert json.loads(browser.get("/team/a/mcp").data)["error"] == "not_found"
    assert browser.get("/team/ab/mcp").mimetype == "text/html"
