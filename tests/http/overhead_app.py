"""The same app for every contender of the overhead measurement; OVERHEAD chooses what stands before it."""

import os

from starlette.applications import Starlette
from starlette.responses import JSONResponse
from starlette.routing import Route


async def order(request):
    order = await request.json()
    return JSONResponse({"name": order["name"], "amount": order["amount"], "paid": True}, 201)


bare = Starlette(routes=[Route("/orders", order, methods=["POST"])])


def ours():
    from dupeproof.http import IdempotencyMiddleware

    return IdempotencyMiddleware(bare, store=os.environ["STORE"], scope=_user)


def idemkit():
    from idemkit import HttpConfig, IdempotencyMiddleware, RedisBackend

    backend = RedisBackend.from_url(os.environ["STORE"])
    return IdempotencyMiddleware(bare, backend=backend, config=HttpConfig(scope=_user))


def _user(request):
    return "someone"


app = {"bare": lambda: bare, "ours": ours, "idemkit": idemkit}[os.environ["OVERHEAD"]]()
