"""Orders on Flask, each taken once: a decorator on the view.

pip install "dupeproof[flask]" && python examples/flask_orders.py
"""

import os
import sqlite3
from contextlib import closing

from flask import Flask, Request, Response, abort, jsonify, request

from dupeproof.http import idempotency
from dupeproof.http.flask import Idempotent

DATABASE = os.environ.get("ORDERS", "orders.db")
app = Flask(__name__)


def user(request: Request) -> str:
    """Whoever they say they are; put your own here."""
    scheme, _, name = request.headers.get("Authorization", "").partition(" ")
    if scheme.lower() != "bearer" or not name.isalnum():
        abort(401, "say who you are: Authorization: Bearer <name>")
    return name


idempotent = Idempotent(store=f"sqlite:///{DATABASE}", scope=user)


@app.post("/orders")
@idempotent
def order() -> Response:
    new = request.get_json()
    with (
        closing(sqlite3.connect(DATABASE)) as connection,
        connection,
        idempotency.transaction(connection) as keep,
    ):
        values = (str(new["item"]), int(new["amount"]))
        made = connection.execute(
            "INSERT INTO orders (item, amount) VALUES (?, ?) RETURNING id", values
        ).fetchone()
        response = jsonify(id=made[0], item=values[0], amount=values[1])
        response.status_code = 201
        return keep(response)


with closing(sqlite3.connect(DATABASE)) as connection, connection:
    connection.execute(
        "CREATE TABLE IF NOT EXISTS orders (id INTEGER PRIMARY KEY, item TEXT, amount INTEGER)"
    )
    idempotency.create_schema(connection)

if __name__ == "__main__":
    app.run(port=int(os.environ.get("PORT", "8000")))
