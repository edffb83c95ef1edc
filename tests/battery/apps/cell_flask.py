import goods
from flask import Flask, Response, redirect, request
from flask_compress import Compress

from dupeproof.http.wsgi import IdempotencyMiddleware

app = Flask(__name__)
Compress(app)
app.wsgi_app = IdempotencyMiddleware(app.wsgi_app, **goods.OPTIONS)


@app.post("/orders/")
def order():
    return goods.order(request.get_json()), 201


@app.post("/moved/")
def moved():
    return redirect("/orders/", 307)


@app.post("/text/")
def text():
    return Response(goods.text(request.get_json()), mimetype="text/plain")


@app.post("/stream/")
def stream():
    return Response(goods.pieces(request.get_json()), mimetype="text/plain")


@app.post("/events/")
def events():
    return Response(goods.pieces(request.get_json()), mimetype="text/event-stream")


@app.get("/ready")
def ready():
    return "ready"
