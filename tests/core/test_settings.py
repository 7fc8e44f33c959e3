from pathlib import Path

import pytest

from core.errors import SettingsError
from core.settings import load_settings

KEY = "k" * 43


def settings_of(tmp_path: Path, **given: str):
    environ = {f"COUNTERSIGN_{name}": value for name, value in ({"SECRET_KEYS": KEY} | given).items()}
    return load_settings(environ, folder=tmp_path)


def test_without_settings_it_is_a_development_server_on_localhost(tmp_path):
    settings = settings_of(tmp_path)

    assert (settings.base_url, settings.resource) == ("http://localhost:6535", "http://localhost:6535/mcp")
    assert not settings.production
    assert settings.database_url == f"sqlite:///{tmp_path}/instance/countersign.db"


def test_a_base_url_elsewhere_means_production_and_must_be_https(tmp_path):
    assert settings_of(tmp_path, BASE_URL="https://app.example.com/team/a").prefix == "/team/a"
    with pytest.raises(SettingsError, match="must be https"):
        settings_of(tmp_path, BASE_URL="http://app.example.com")


def test_every_gap_is_named_at_once(tmp_path):
    with pytest.raises(SettingsError) as caught:
        load_settings({"COUNTERSIGN_PORT": "x", "COUNTERSIGN_DATABASE_URL": "mysql://h/d"}, folder=tmp_path)

    assert all(word in caught.value.public for word in ("PORT", "DATABASE_URL", "secrets init"))


@pytest.mark.parametrize(
    "url",
    [
        "app.example.com",
        "https://APP.example.com",
        "https://u@h",
        "https://h/?x",
        "https://h//a",
        "ftp://h",
        "https://h/../a",
    ],
)
def test_a_base_url_that_clients_could_spell_in_two_ways_is_refused(tmp_path, url):
    with pytest.raises(SettingsError, match="BASE_URL"):
        settings_of(tmp_path, BASE_URL=url)


@pytest.mark.parametrize("content", ["short", "", "k" * 20 + "\n", "kä" * 40])
def test_a_damaged_secret_file_is_named(tmp_path, content):
    (tmp_path / "instance").mkdir()
    (tmp_path / "instance" / "secret-key").write_text(content)

    with pytest.raises(SettingsError, match="secret key file"):
        load_settings({}, folder=tmp_path)


def test_the_newest_key_stands_first_in_the_secret_file(tmp_path):
    (tmp_path / "instance").mkdir()
    (tmp_path / "instance" / "secret-key").write_text(f"{'n' * 40}\n{'o' * 40}\n")

    assert load_settings({}, folder=tmp_path).secret_keys == ("n" * 40, "o" * 40)


def test_a_relative_sqlite_address_is_the_file_that_the_applications_own_engine_opens(tmp_path):
    relative = settings_of(tmp_path, DATABASE_URL="sqlite:///data/shop.db?timeout=5").database_url
    absolute = settings_of(tmp_path, DATABASE_URL="sqlite:////srv/shop.db").database_url

    assert (relative, absolute) == (f"sqlite:///{tmp_path}/data/shop.db?timeout=5", "sqlite:////srv/shop.db")


def test_the_environment_wins_over_the_env_file(tmp_path):
    (tmp_path / ".env").write_text('# mine\nCOUNTERSIGN_PORT=7001\nexport COUNTERSIGN_WORKERS="3"\n')

    settings = settings_of(tmp_path, PORT="7002")

    assert (settings.port, settings.workers) == (7002, 3)


def test_no_secret_is_in_the_representation(tmp_path):
    assert KEY not in repr(settings_of(tmp_path))


@pytest.mark.parametrize(
    ("base_url", "alone"),
    [
        ("https://app.example.com", True),
        ("http://localhost:6535", False),
        ("https://localhost", False),
        ("https://127.0.0.1", False),
    ],
)
def test_a_cookie_alone_decides_only_on_https_elsewhere(tmp_path, base_url, alone):
    assert settings_of(tmp_path, BASE_URL=base_url).cookie_alone_decides is alone


@pytest.mark.parametrize(
    "url", ["https://h/a%20b", "https://h/Teäm", "https://h/mcp", "https://h.", "http://localhost:99999"]
)
def test_a_base_url_whose_path_or_port_could_not_be_served_is_refused(tmp_path, url):
    with pytest.raises(SettingsError, match="BASE_URL"):
        settings_of(tmp_path, BASE_URL=url)


def test_in_production_the_base_url_is_missed(tmp_path):
    with pytest.raises(SettingsError, match="COUNTERSIGN_BASE_URL is missing"):
        settings_of(tmp_path, ENV="production")


def test_addresses_to_listen_on_are_numbers_or_sockets(tmp_path):
    assert settings_of(tmp_path).bind == ()
    assert settings_of(tmp_path, BIND="0.0.0.0, ::").bind == ("0.0.0.0", "::")
    assert settings_of(tmp_path, BIND="unix:/run/countersign/http.sock").bind == ("unix:/run/countersign/http.sock",)
    for wrong in ("example.com", "0.0.0.0:80", "unix:relative.sock", "unix:/", "fd://3"):
        with pytest.raises(SettingsError, match="COUNTERSIGN_BIND"):
            settings_of(tmp_path, BIND=wrong)


def test_hosts_of_clients_are_names_in_lower_case_and_cimd_a_switch(tmp_path):
    given = {"COUNTERSIGN_SECRET_KEYS": KEY, "COUNTERSIGN_CIMD_ALLOWED_HOSTS": "claude.ai, .example.com"}
    found = load_settings(given | {"COUNTERSIGN_CIMD": "off"}, folder=tmp_path)

    assert (found.cimd, found.cimd_allowed_hosts) == (False, {"claude.ai", ".example.com"})
    for bad in ("https://claude.ai", "Claude.ai", "*.example.com", "claude.ai:443", "..", "claude.ai/"):
        with pytest.raises(SettingsError, match="COUNTERSIGN_CIMD_DENIED_HOSTS"):
            load_settings(given | {"COUNTERSIGN_CIMD_DENIED_HOSTS": bad}, folder=tmp_path)
    with pytest.raises(SettingsError, match="COUNTERSIGN_CIMD:"):
        load_settings(given | {"COUNTERSIGN_CIMD": "false"}, folder=tmp_path)
