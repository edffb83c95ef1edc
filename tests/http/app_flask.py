"""The shop on Flask; SHOP_FORM chooses between the middleware around it and the decorator on its views."""

import os
import time

import shop
from flask import Flask, Response, abort, request, send_file

app = Flask(__name__)
if os.environ["SHOP_FORM"] == "decorator":
    from dupeproof.http.flask import Idempotent

    guarded = Idempotent(**shop.OPTIONS)
else:
    from dupeproof.http.wsgi import IdempotencyMiddleware

    app.wsgi_app = IdempotencyMiddleware(app.wsgi_app, **shop.OPTIONS)

    def guarded(view):
        return view


@app.get("/runs/<name>")
def runs(name):
    return str(shop.count(name))


@app.post("/orders")
@guarded
def order():
    if shop.is_stranger(request):
        status, headers, body = shop.STRANGER
        return Response(body, status, headers)
    name, seconds = shop.name_and_seconds(request.get_data())
    shop.ran(name)
    time.sleep(seconds)
    status, headers, body = shop.made(name)
    return Response(body, status, headers)


@app.post("/<kind>")
@guarded
def kind(kind):
    name, _ = shop.name_and_seconds(request.get_data())
    shop.ran(name)
    if kind in shop.CHUNKS:
        return Response(iter(shop.CHUNKS[kind]), headers=shop.STREAM_HEADERS[kind])
    if kind == "trickle":
        return Response(shop.trickle())
    if kind == "large":
        return Response(b"x" * shop.LARGE)
    if kind == "broken":
        raise RuntimeError("broken")
    if kind == "refused":
        abort(403)
    if kind == "file":
        return send_file(shop.FILE)
    if kind == "late":
        response = Response("done")
        response.call_on_close(shop.late)
        return response
    status, headers, body = shop.plain(kind, name)
    return Response(body, status, headers)
