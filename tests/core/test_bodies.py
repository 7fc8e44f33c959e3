import socket
import threading
from io import BytesIO

from flask import Flask, request

from core.bodies import WholeBodies

LIMIT = 100


def app() -> Flask:
    made = Flask(__name__)
    made.config["MAX_CONTENT_LENGTH"] = LIMIT

    @made.post("/")
    def length():
        return str(len(request.get_data()))

    made.wsgi_app = WholeBodies(made.wsgi_app, LIMIT, seconds=0.1)
    return made


def answer(sent: bytes, *, declared: int | None = None, chunked: bool = False):
    """Send a body as gunicorn hands it over: an input that ends by itself."""
    more = {"HTTP_TRANSFER_ENCODING": "chunked"} if chunked else {}
    length = {} if chunked else {"CONTENT_LENGTH": str(len(sent) if declared is None else declared)}
    environ = {"wsgi.input": BytesIO(sent), "wsgi.input_terminated": True, **more, **length}
    return app().test_client().post("/", environ_overrides=environ)


def test_a_body_within_the_limit_arrives_whole():
    assert answer(b"x" * LIMIT).text == "100"
    assert answer(b"x" * LIMIT, chunked=True).text == "100"
    assert answer(b"").text == "0"


def test_a_body_over_the_limit_is_refused_however_it_is_framed():
    assert answer(b"x" * (LIMIT + 1)).status_code == 413
    assert answer(b"x" * (LIMIT + 1), chunked=True).status_code == 413


def test_a_body_that_is_shorter_than_it_says_is_refused():
    assert answer(b"x" * 50, declared=90).status_code == 400


def test_a_body_that_trickles_is_ended_when_its_time_is_over():
    ours, theirs = socket.socketpair()
    ended = threading.Event()

    class Trickle:
        def read(self, _size: int) -> bytes:
            got = b""
            while part := ours.recv(1):
                got += part
            ended.set()
            return got

    theirs.sendall(b"x")
    environ = {"wsgi.input": Trickle(), "CONTENT_LENGTH": "90", "gunicorn.socket": ours}
    refused = app().test_client().post("/", environ_overrides=environ)

    assert ended.is_set()
    assert refused.status_code == 400
    ours.close()
    theirs.close()
