"""A form on FastAPI that may be clicked twice.

pip install "dupeproof[http]" fastapi uvicorn jinja2 python-multipart && python examples/double_click/on_fastapi.py
"""

import os

import shop
import uvicorn
from fastapi import FastAPI, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import HTMLResponse, RedirectResponse
from fastapi.templating import Jinja2Templates

from dupeproof import AsyncOneTimeTokens, TokenError, TokenUsed
from dupeproof.http.forms import status_of, token_field, token_of, words_for

app = FastAPI(title="A form that may be clicked twice")
render = Jinja2Templates(shop.TEMPLATES).TemplateResponse
tokens = AsyncOneTimeTokens(f"sqlite:///{shop.DATABASE}", secret=shop.SECRET)


@app.get("/", response_class=HTMLResponse)
def form(request: Request) -> HTMLResponse:
    visitor = request.cookies.get("visitor") or shop.new_visitor()
    field = token_field(tokens.issue(shop.purpose(visitor), ttl="10m"))
    page = render(request, "form.html", {"field": field, "items": shop.items_of(visitor)})
    page.set_cookie("visitor", visitor, httponly=True, samesite="lax")
    return page


@app.post("/orders", response_class=RedirectResponse)
async def order(request: Request) -> RedirectResponse:
    visitor = request.cookies.get("visitor")
    sent = await request.form()
    try:
        number = await tokens.redeem(token_of(request.headers, sent), shop.purpose(visitor))
    except TokenUsed as used:
        return RedirectResponse(f"/orders/{used.token_id}?again=1", 303)
    await run_in_threadpool(shop.take, number, visitor, str(sent.get("item", "")))
    return RedirectResponse(f"/orders/{number}", 303)


@app.get("/orders/{number}", response_class=HTMLResponse)
def find(request: Request, number: str) -> HTMLResponse:
    item = shop.item_of(number, request.cookies.get("visitor"))
    return render(request, "order.html", {"item": item, "again": "again" in request.query_params})


@app.exception_handler(TokenError)
def refuse(request: Request, error: TokenError) -> HTMLResponse:
    return render(request, "refused.html", {"why": words_for(error)}, status_of(error))


if __name__ == "__main__":
    uvicorn.run(app, port=int(os.environ.get("PORT", "8000")))
