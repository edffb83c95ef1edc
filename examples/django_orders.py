"""Orders on Django in one file, each taken once: the middleware for the whole project.

pip install "dupeproof[django]" && python examples/django_orders.py
"""

import json
import os
import sys

from django.conf import settings
from django.core.management import execute_from_command_line
from django.core.wsgi import get_wsgi_application
from django.db import connection, transaction
from django.http import HttpRequest, JsonResponse
from django.urls import path
from django.views.decorators.http import require_POST

from dupeproof.http import idempotency

DATABASE = os.environ.get("ORDERS", "orders.db")


def user(request: HttpRequest) -> str | None:
    """Whoever they say they are; put your own here."""
    scheme, _, name = request.headers.get("Authorization", "").partition(" ")
    return name if scheme.lower() == "bearer" and name.isalnum() else None


@require_POST
def order(request: HttpRequest) -> JsonResponse:
    new = json.loads(request.body)
    with transaction.atomic(), idempotency.transaction(connection) as keep, connection.cursor() as cursor:
        cursor.execute("INSERT INTO orders (item, amount) VALUES (%s, %s)", [new["item"], new["amount"]])
        return keep(JsonResponse({"id": cursor.lastrowid, **new}, status=201))


urlpatterns = [path("orders", order)]
if not settings.configured:
    settings.configure(
        ALLOWED_HOSTS=["localhost", "127.0.0.1"],
        DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": DATABASE}},
        DUPEPROOF_HTTP={"store": f"sqlite:///{DATABASE}", "scope": user},
        MIDDLEWARE=["dupeproof.http.django.IdempotencyMiddleware"],
        ROOT_URLCONF=__name__,
        SECRET_KEY=os.urandom(16).hex(),
    )
application = get_wsgi_application()
with connection.cursor() as cursor:
    cursor.execute("CREATE TABLE IF NOT EXISTS orders (id INTEGER PRIMARY KEY, item TEXT, amount INTEGER)")
idempotency.create_schema(connection)
connection.close()

if __name__ == "__main__":
    execute_from_command_line([sys.argv[0], "runserver", "--noreload", os.environ.get("PORT", "8000")])
