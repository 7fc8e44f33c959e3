"""Debian's nginx in front of the server, with a recipe of deploy/ in which only names, ports and paths are others."""

import os
import re
import shutil
import socket
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tests.deploy.certificate import Certificate
from tests.support.process import guarded, stop
from tests.support.server import REPO
from tests.support.waiting import wait_until

WHOLE = """
daemon off;
pid {folder}/nginx.pid;
error_log {folder}/error.log;
events {{ }}
http {{
    access_log off;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
{recipe}
}}
"""
# What the reader has around the lines of the sub-path already.
THEIR_SERVER = """
server {{
    listen 443 ssl;
    server_name app.example.com;
    ssl_certificate /etc/letsencrypt/live/app.example.com/fullchain.pem;
    ssl_certificate_key /etc/letsencrypt/live/app.example.com/privkey.pem;
{recipe}
}}
"""


def find_nginx() -> str | None:
    """Return the program, or None."""
    return shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")


def recipe(name: str, *, https: int, http: int, upstream: str, certificate: Certificate) -> str:
    """Return deploy/{name} with this machine's ports, certificate and upstream."""
    text = (REPO / "deploy" / name).read_text("utf-8")
    if "server_name" not in text:
        text = THEIR_SERVER.format(recipe=text)
    replaced: Mapping[str, str] = {
        r"listen 443\b": f"listen 127.0.0.1:{https}",
        r"listen 80\b": f"listen 127.0.0.1:{http}",
        r"https://app\.example\.com\$": f"https://localhost:{https}$",
        r"server_name app\.example\.com": "server_name localhost",
        r"/etc/letsencrypt/live/app\.example\.com/fullchain\.pem": str(certificate.chain),
        r"/etc/letsencrypt/live/app\.example\.com/privkey\.pem": str(certificate.key),
        r"http://127\.0\.0\.1:6535": upstream,
    }
    if _has_ipv6():
        replaced = {**replaced, r"\[::\]:443": f"[::1]:{https}", r"\[::\]:80": f"[::1]:{http}"}
    else:
        replaced = {**replaced, r" *listen \[::\].*\n": ""}
    for pattern, words in replaced.items():
        text = re.sub(pattern, words.replace("\\", "\\\\"), text)
    return text


@contextmanager
def run_nginx(program: str, folder: Path, recipe: str, port: int) -> Iterator[None]:
    """Serve the recipe until the end; `folder` has to be open to user nobody."""
    configuration = folder / "nginx.conf"
    configuration.write_text(WHOLE.format(folder=folder, recipe=recipe))
    if os.geteuid() == 0:
        for path in (folder, *folder.iterdir()):
            shutil.chown(path, "nobody", "nogroup")
    command = [program, "-p", str(folder), "-e", str(folder / "error.log"), "-c", str(configuration)]
    process = subprocess.Popen(guarded(command, as_nobody=True), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        wait_until("nginx", lambda: process.poll() is not None or _listens(port))
        if process.poll() is not None:
            raise RuntimeError((folder / "error.log").read_text())
        yield
    finally:
        stop(process)


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _has_ipv6() -> bool:
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind(("::1", 0))
    except OSError:
        return False
    return True
