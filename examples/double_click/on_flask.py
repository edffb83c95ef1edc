"""A form on Flask that may be clicked twice.

pip install "dupeproof[flask]" && python examples/double_click/on_flask.py
"""

import os

import shop
from flask import Flask, Response, make_response, redirect, render_template, request
from werkzeug import Response as Answer

from dupeproof import OneTimeTokens, TokenError, TokenUsed
from dupeproof.http.forms import status_of, token_field, token_of, words_for

app = Flask(__name__, template_folder=str(shop.TEMPLATES))
tokens = OneTimeTokens(f"sqlite:///{shop.DATABASE}", secret=shop.SECRET)


@app.get("/")
def form() -> Response:
    visitor = request.cookies.get("visitor") or shop.new_visitor()
    field = token_field(tokens.issue(shop.purpose(visitor), ttl="10m"))
    page = make_response(render_template("form.html", field=field, items=shop.items_of(visitor)))
    page.set_cookie("visitor", visitor, httponly=True, samesite="Lax")
    return page


@app.post("/orders")
def order() -> Answer:
    visitor = request.cookies.get("visitor")
    try:
        number = tokens.redeem(token_of(request.headers, request.form), shop.purpose(visitor))
    except TokenUsed as used:
        return redirect(f"/orders/{used.token_id}?again=1", 303)
    shop.take(number, visitor, request.form.get("item", ""))
    return redirect(f"/orders/{number}", 303)


@app.get("/orders/<number>")
def find(number: str) -> str:
    item = shop.item_of(number, request.cookies.get("visitor"))
    return render_template("order.html", item=item, again="again" in request.args)


@app.errorhandler(TokenError)
def refuse(error: TokenError) -> tuple[str, int]:
    return render_template("refused.html", why=words_for(error)), status_of(error)


if __name__ == "__main__":
    app.run(port=int(os.environ.get("PORT", "8000")))
