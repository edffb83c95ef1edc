"""Orders on FastAPI, each taken once: the order and the record of its request are one transaction.

pip install "dupeproof[http]" fastapi uvicorn && python examples/fastapi_orders.py
"""

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Annotated

import uvicorn
from fastapi import APIRouter, FastAPI, HTTPException, Path
from fastapi.responses import JSONResponse
from pydantic import BaseModel, Field
from starlette.authentication import AuthCredentials, AuthenticationBackend, AuthenticationError, SimpleUser
from starlette.middleware import Middleware
from starlette.middleware.authentication import AuthenticationMiddleware
from starlette.requests import HTTPConnection, Request

from dupeproof.http import IdempotencyMiddleware, idempotency
from dupeproof.http.fastapi import document

DATABASE = os.environ.get("ORDERS", "orders.db")


class NewOrder(BaseModel):
    item: str = Field(min_length=1, max_length=100)
    amount: int = Field(ge=1, le=1000)


class Order(NewOrder):
    id: int


class Refusal(BaseModel):
    detail: str


@contextmanager
def database() -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(DATABASE)) as connection, connection:
        yield connection


class BearerIsTheUser(AuthenticationBackend):
    """Whoever they say they are; put your own here."""

    async def authenticate(self, conn: HTTPConnection) -> tuple[AuthCredentials, SimpleUser] | None:
        if not conn.url.path.startswith("/orders"):
            return None
        scheme, _, name = conn.headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer" or not name.isalnum():
            raise AuthenticationError("say who you are: Authorization: Bearer <name>")
        return AuthCredentials(), SimpleUser(name)


router = APIRouter(responses={401: {"model": Refusal}})


@router.post("/orders", status_code=201, response_model=Order)
def order(new: NewOrder) -> JSONResponse:
    with database() as connection, idempotency.transaction(connection) as keep:
        values = (new.item, new.amount)
        made = connection.execute(
            "INSERT INTO orders (item, amount) VALUES (?, ?) RETURNING id", values
        ).fetchone()
        location = {"Location": f"/orders/{made[0]}"}
        return keep(JSONResponse({"id": made[0], **new.model_dump()}, 201, location))


@router.get("/orders/{number}", responses={404: {"model": Refusal}})
def find(number: Annotated[int, Path(ge=1, le=2**53)]) -> Order:
    with database() as connection:
        found = connection.execute("SELECT item, amount FROM orders WHERE id = ?", (number,)).fetchone()
    if found is None:
        raise HTTPException(404, "there is no such order")
    return Order(id=number, item=found[0], amount=found[1])


def refuse(_: Request, error: Exception) -> JSONResponse:
    return JSONResponse({"detail": str(error)}, 401, {"WWW-Authenticate": "Bearer"})


app = FastAPI(
    title="Orders",
    middleware=[
        Middleware(AuthenticationMiddleware, backend=BearerIsTheUser(), on_error=refuse),
        Middleware(
            IdempotencyMiddleware,
            store=f"sqlite:///{DATABASE}",
            scope=lambda request: request.user.username,
        ),
    ],
)
app.include_router(router)
document(app)
with database() as connection:
    connection.execute(
        "CREATE TABLE IF NOT EXISTS orders (id INTEGER PRIMARY KEY, item TEXT, amount INTEGER)"
    )
    idempotency.create_schema(connection)

if __name__ == "__main__":
    uvicorn.run(app, port=int(os.environ.get("PORT", "8000")))
