"""The peer "bare Flask": the job behind one JSON route, without authentication, decision or record."""

import orjson
from flask import Flask, Response, request
from shop import get_order

app = Flask(__name__)


@app.post("/orders_get")
def orders_get() -> Response:
    return Response(orjson.dumps(get_order(request.get_json()["order_id"])), mimetype="application/json")
