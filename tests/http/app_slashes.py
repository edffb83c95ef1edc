"""Shops with one address, which ends with a slash; SHOP_FORM chooses the framework and, for Django, where the guard stands."""

import json
import os

import shop

FORM = os.environ["SHOP_FORM"]


def fastapi():
    from fastapi import FastAPI, Response

    from dupeproof.http import IdempotencyMiddleware

    app = FastAPI()
    app.add_middleware(IdempotencyMiddleware, **shop.OPTIONS)

    @app.post("/orders/")
    def order(order: dict[str, str]) -> Response:
        shop.ran(order["name"])
        status, headers, body = shop.made(order["name"])
        return Response(body, status, headers)

    return app


def flask():
    from flask import Flask, Response, request

    from dupeproof.http.wsgi import IdempotencyMiddleware

    app = Flask(__name__)
    app.wsgi_app = IdempotencyMiddleware(app.wsgi_app, **shop.OPTIONS)

    @app.post("/orders/")
    def order():
        name = request.get_json()["name"]
        shop.ran(name)
        status, headers, body = shop.made(name)
        return Response(body, status, headers)

    return app


GUARD, COMMON = "dupeproof.http.django.IdempotencyMiddleware", "django.middleware.common.CommonMiddleware"


def order(request):
    from django.http import HttpResponse

    name = json.loads(request.body)["name"]
    shop.ran(name)
    status, headers, body = shop.made(name)
    return HttpResponse(body, status=status, headers=headers)


def django():
    from django.conf import settings
    from django.core.asgi import get_asgi_application
    from django.core.wsgi import get_wsgi_application
    from django.urls import path

    settings.configure(
        ALLOWED_HOSTS=["*"],
        ROOT_URLCONF=(path("orders/", order),),
        SECRET_KEY="shop",
        LOGGING_CONFIG=None,
        DUPEPROOF_HTTP=shop.OPTIONS,
        MIDDLEWARE=[GUARD, COMMON] if FORM == "django" else [COMMON, GUARD],
    )
    return get_asgi_application() if FORM == "django-asgi" else get_wsgi_application()


app = {"fastapi": fastapi, "flask": flask}.get(FORM, django)()
