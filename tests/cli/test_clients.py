"""countersign client add: a program that whoever runs the server vouches for."""

from joserfc.jwk import RSAKey

from tests.support.browser import FormBrowser
from tests.support.oauth import RawOAuth
from tests.support.publisher import publishing
from tests.support.server import ALICE, ServerProcess
from tests.support.signing import TYPE, claims_of, key_set, new_key, signed

BACK = "https://app.example/back"


def added(server: ServerProcess, *words: str) -> list[str]:
    return server.instance.run("client", "add", "--name", "Our app", *words).stdout.split()


def browser_of(server: ServerProcess) -> FormBrowser:
    browser = FormBrowser(server.base_url)
    browser.sign_in(ALICE.email, ALICE.password)
    return browser


def test_an_added_client_connects_with_its_secret_and_is_not_called_unverified(server):
    client_id, secret = added(server, "--redirect-uri", BACK)
    client = RawOAuth(server.base_url, client_id=client_id, redirect_uri=BACK)
    browser = browser_of(server)
    page = browser.open(client.authorize_url())
    code = client.code_from(browser)
    without = client.exchange(code)
    answer = client.exchange(code, client_secret=secret)

    assert secret.startswith("cs_cs_")
    assert "Our app" in page.text
    assert "unverified" not in page.text
    assert "added by whoever runs this server" in page.text
    assert (without.status, answer.status) == (401, 200)


def test_an_added_client_may_prove_itself_with_its_keys(new_instance, tmp_path):
    key = new_key("RS256")
    assert isinstance(key, RSAKey)
    instance = new_instance()
    with publishing(tmp_path) as publisher:
        publisher.tell(instance.folder)
        publisher.publish("https://keys.example/jwks", key_set(key))
        with ServerProcess(instance, workers=1, app="tests.support.fetching_app:create_app()") as server:
            words = ("--method", "private_key_jwt", "--jwks-uri", "https://keys.example/jwks")
            (client_id,) = added(server, "--redirect-uri", BACK, *words)
            client = RawOAuth(server.base_url, client_id=client_id, redirect_uri=BACK)
            code = client.code_from(browser_of(server))
            proof = {"client_assertion_type": TYPE}
            proof["client_assertion"] = signed(key, claims_of(client_id, server.base_url))
            without = client.exchange(code)
            answer = client.exchange(code, **proof)

    assert (without.status, answer.status) == (401, 200)


def test_a_client_that_can_not_be_added_is_refused_in_one_line(server):
    words = ("client", "add", "--name", "X", "--redirect-uri", "javascript:alert(1)")
    done = server.instance.run(*words, check=False)

    assert done.returncode != 0
    assert "redirect_uris[0]" in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
