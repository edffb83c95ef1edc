"""A form on Django that may be clicked twice.

pip install "dupeproof[django]" && python examples/double_click/on_django.py
"""

import os
import sys

import shop
from django.conf import settings
from django.core.management import execute_from_command_line
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import path
from django.views.decorators.http import require_GET, require_POST

from dupeproof import OneTimeTokens, TokenError, TokenUsed
from dupeproof.http.forms import status_of, token_field, token_of, words_for

tokens = OneTimeTokens(f"sqlite:///{shop.DATABASE}", secret=shop.SECRET)


@require_GET
def form(request: HttpRequest) -> HttpResponse:
    visitor = request.COOKIES.get("visitor") or shop.new_visitor()
    field = token_field(tokens.issue(shop.purpose(visitor), ttl="10m"))
    page = render(request, "form.html", {"field": field, "items": shop.items_of(visitor)})
    page.set_cookie("visitor", visitor, httponly=True, samesite="Lax")
    return page


@require_POST
def order(request: HttpRequest) -> HttpResponse:
    visitor = request.COOKIES.get("visitor")
    try:
        number = tokens.redeem(token_of(request.headers, request.POST), shop.purpose(visitor))
    except TokenUsed as used:
        return see(f"/orders/{used.token_id}?again=1")
    except TokenError as error:
        return render(request, "refused.html", {"why": words_for(error)}, status=status_of(error))
    shop.take(number, visitor, request.POST.get("item", ""))
    return see(f"/orders/{number}")


@require_GET
def find(request: HttpRequest, number: str) -> HttpResponse:
    item = shop.item_of(number, request.COOKIES.get("visitor"))
    return render(request, "order.html", {"item": item, "again": "again" in request.GET})


def see(address: str) -> HttpResponse:
    return HttpResponse(status=303, headers={"Location": address})


urlpatterns = [path("", form), path("orders", order), path("orders/<number>", find)]
settings.configure(
    ALLOWED_HOSTS=["localhost", "127.0.0.1"],
    ROOT_URLCONF=__name__,
    # No middleware against forged requests: a token that is bound to the visitor is one.
    TEMPLATES=[{"BACKEND": "django.template.backends.django.DjangoTemplates", "DIRS": [shop.TEMPLATES]}],
)

if __name__ == "__main__":
    execute_from_command_line([sys.argv[0], "runserver", "--noreload", os.environ.get("PORT", "8000")])
