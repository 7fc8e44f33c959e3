"""docs/deploy.md as it stands: five commands in an empty folder, nginx in front, and an agent that refunds an order."""

import os
import shutil
import subprocess
import sys
import tempfile
import urllib.request
import zipfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.deploy.certificate import Certificate, make_certificate
from tests.deploy.document import block
from tests.deploy.install import build_wheel, lend_libraries
from tests.deploy.nginx import find_nginx, recipe, run_nginx
from tests.journeys.shop import ask_for_refund, refundable_order
from tests.support.agent import connect
from tests.support.browser import FormBrowser
from tests.support.missing import skip_or_fail
from tests.support.process import guarded, stop
from tests.support.raw_mcp import send
from tests.support.server import REPO, clean_environment
from tests.support.waiting import free_port, wait_until

ADMIN = "you@example.com"
PASSWORD = "chosen-at-the-first-sign-in-7Q"
PRINTED_URL = "https://app.example.com"


@dataclass(slots=True)
class Deployed:
    """A folder in which the five commands were run, and the proxy in front of what the last one serves."""

    folder: Path
    base_url: str
    environment: dict[str, str]
    http_port: int
    log: Path
    process: subprocess.Popen[bytes]

    def password(self) -> str:
        """Return the password that `operator add` made, from the file that it named."""
        return next((self.folder / "instance").glob("password-*")).read_text().strip()


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package as it is handed out."""
    return build_wheel(tmp_path_factory.mktemp("wheel"))


@pytest.fixture
def folder() -> Iterator[Path]:
    """An empty folder that every user may look into; its name is short, since a socket's is."""
    made = Path(tempfile.mkdtemp(prefix="deploy-"))
    made.chmod(0o755)
    yield made
    shutil.rmtree(made)


@contextmanager
def deployed(wheel: Path, folder: Path, *, prefix: str, nginx: str, bind: str = "") -> Iterator[Deployed]:
    """Do what docs/deploy.md says; only address, port and certificate are this machine's."""
    program = find_nginx() or skip_or_fail("nginx")
    home, proxy = folder / "srv", folder / "nginx"
    for made in (home, proxy):
        made.mkdir()
    shutil.copy(wheel, home)
    shutil.copy(REPO / "requirements.lock", home)
    lend_libraries(home)
    https, http, port = free_port(), free_port(), free_port()
    base_url = f"https://localhost:{https}{prefix}"
    environment = clean_environment() | {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "PIP_NO_INDEX": "1",
        "COUNTERSIGN_PORT": str(port),
        "COUNTERSIGN_BIND": bind,
    }
    settings = block("settings").replace(PRINTED_URL, base_url)
    *before, serve = block("five commands").splitlines()
    for command in (settings, *before):
        run(command, home, environment)
    with ExitStack() as stack:
        log = folder / "serve.log"
        with log.open("wb") as output:
            process = subprocess.Popen(
                guarded(["bash", "-c", f"exec {serve}"]), cwd=home, env=environment, stdout=output, stderr=output
            )
        stack.callback(stop, process)
        upstream = f"http://{bind}" if bind else f"http://127.0.0.1:{port}"
        certificate = stack.enter_context(trusted(proxy))
        lines = recipe(nginx, https=https, http=http, upstream=upstream, certificate=certificate)
        stack.enter_context(run_nginx(program, proxy, lines, https))
        wait_until("the server", lambda: process.poll() is not None or is_ready(base_url), seconds=60)
        assert process.poll() is None, log.read_text()
        yield Deployed(home, base_url, environment, http, log, process)


@contextmanager
def trusted(folder: Path) -> Iterator[Certificate]:
    """Make a certificate that every client of this process trusts, as OpenSSL's own variable says it."""
    certificate = make_certificate(folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SSL_CERT_FILE", str(certificate.chain))
        yield certificate


def run(command: str, folder: Path, environment: dict[str, str]) -> None:
    """Run one printed command as a deploy script does, without a terminal."""
    done = subprocess.run(
        ["bash", "-ec", command],
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        start_new_session=True,
        check=False,
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"


def origin_of_the_app(folder: Path) -> Path:
    """Return the file that the virtual environment of `folder` serves: the wheel's, never the checkout's."""
    ask = "import importlib.util; print(importlib.util.find_spec('app').origin)"
    command = [str(folder / "venv" / "bin" / "python"), "-c", ask]
    return Path(subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True).stdout.strip())


def is_ready(base_url: str) -> bool:
    try:
        return bool(fetch(f"{base_url}/readyz").status == 200)
    except OSError:
        return False


def fetch(url: str) -> urllib.request.http.client.HTTPResponse:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    return opener.open(url, timeout=10)


def refund_through(site: Deployed) -> None:
    """Replace the first password, connect the official client, read, and refund one order that a person confirms."""
    first = FormBrowser(site.base_url)
    first.open(site.base_url + "/")
    page = first.sign_in(ADMIN, site.password())
    assert page.url.endswith("/password")
    first.fill("Current password", site.password())
    first.fill("New password", PASSWORD)
    first.submit("Change password")

    browser = FormBrowser(site.base_url)
    browser.open(site.base_url + "/")
    browser.sign_in(ADMIN, PASSWORD)
    with connect(f"{site.base_url}/mcp", browser, tick=("orders:refund",)) as agent:
        order = refundable_order(agent)
        refund = ask_for_refund(agent, order)
        assert refund["asked"]["confirmUrl"].startswith(f"{site.base_url}/confirmations/")
        browser.approve(refund["asked"]["confirmUrl"])
        done = agent.call("orders_refund", refund["confirmed"])
        after = agent.call("orders_get", order_id=order["number"])["order"]

    assert done.status == "done"
    assert after["status"] == "refunded"


def test_the_wheel_holds_every_file_of_the_product(wheel):
    packages = ("core", "flows", "policy", "auth", "mcp_provider", "web", "cli", "migrations", "templates", "static")
    found = [path for package in packages for path in (REPO / package).rglob("*.*") if path.is_file()]
    found += (REPO / "docs").rglob("*.md")
    files = {path.relative_to(REPO).as_posix() for path in found if path.suffix != ".pyc"}

    assert len(files) > 100
    assert (files | {"app.py"}) - set(zipfile.ZipFile(wheel).namelist()) == set()


def test_at_the_root_of_a_host(wheel, folder):
    with deployed(wheel, folder, prefix="", nginx="nginx.conf") as site:
        refund_through(site)
        plain = send("GET", f"http://localhost:{site.http_port}/runs?x=1")

        assert (plain.status, plain.headers["location"]) == (301, f"{site.base_url}/runs?x=1")
        assert "strict-transport-security" in {name.lower() for name in fetch(f"{site.base_url}/login").headers}
        said = site.log.read_text()
        assert f"Ready to serve {site.base_url}/ (0 faults" in said
        assert "The demo shop is served" in said
        assert origin_of_the_app(site.folder).is_relative_to(site.folder)
        assert stop(site.process) == 0


def test_on_a_sub_path_through_a_socket(wheel, folder):
    bind = f"unix:{folder}/http.sock"
    with deployed(wheel, folder, prefix="/team", nginx="nginx-subpath.conf", bind=bind) as site:
        refund_through(site)
        host = site.base_url.removesuffix("/team")
        page = fetch(f"{site.base_url}/login").read().decode()

        assert fetch(f"{host}/.well-known/oauth-protected-resource/team/mcp").status == 200
        assert fetch(f"{host}/.well-known/oauth-authorization-server/team").status == 200
        assert '"/team/static/style.css' in page
        assert fetch(f"{host}/team/static/style.css").status == 200
        with pytest.raises(OSError, match="404"):
            fetch(f"{host}/teams")
        assert '"remote":"127.0.0.1"' in site.log.read_text()
