"""The app of the tutorial of Django REST framework: models, a viewset on a router, tokens and sessions, throttles, pages.

Two users, ann and bob, have the tokens of their names.
"""

import os
import time
from pathlib import Path

import django
from django.conf import settings

HERE = Path(os.environ["SHOP_JOURNAL"]).parent

settings.configure(
    ALLOWED_HOSTS=["*"],
    DATABASES={
        "default": {
            "ENGINE": "django.db.backends.sqlite3",
            "NAME": HERE / "snippets.db",
            "OPTIONS": {"timeout": 20},
        }
    },
    DEFAULT_AUTO_FIELD="django.db.models.BigAutoField",
    INSTALLED_APPS=[
        "django.contrib.auth",
        "django.contrib.contenttypes",
        "django.contrib.sessions",
        "django.contrib.staticfiles",
        "rest_framework",
        "rest_framework.authtoken",
    ],
    LOGGING_CONFIG=None,
    MIDDLEWARE=[
        "django.contrib.sessions.middleware.SessionMiddleware",
        "django.middleware.csrf.CsrfViewMiddleware",
        "django.contrib.auth.middleware.AuthenticationMiddleware",
    ],
    REST_FRAMEWORK={
        "DEFAULT_AUTHENTICATION_CLASSES": [
            "rest_framework.authentication.TokenAuthentication",
            "rest_framework.authentication.SessionAuthentication",
        ],
        "DEFAULT_PERMISSION_CLASSES": ["rest_framework.permissions.IsAuthenticated"],
        "DEFAULT_THROTTLE_CLASSES": ["rest_framework.throttling.UserRateThrottle"],
        "DEFAULT_THROTTLE_RATES": {"user": "1000/min"},
    },
    ROOT_URLCONF=__name__,
    SECRET_KEY="snippets",
    STATIC_URL="/static/",
    TEMPLATES=[
        {
            "BACKEND": "django.template.backends.django.DjangoTemplates",
            "APP_DIRS": True,
            "OPTIONS": {"context_processors": ["django.template.context_processors.request"]},
        }
    ],
)
django.setup()

from django.contrib.auth.models import User  # noqa: E402 - needs the settings
from django.core.asgi import get_asgi_application  # noqa: E402
from django.core.management import call_command  # noqa: E402
from django.core.wsgi import get_wsgi_application  # noqa: E402
from django.db import connection, models, transaction  # noqa: E402
from django.urls import include, path  # noqa: E402
from rest_framework import serializers, viewsets  # noqa: E402
from rest_framework.authtoken.models import Token  # noqa: E402
from rest_framework.decorators import action  # noqa: E402
from rest_framework.response import Response  # noqa: E402
from rest_framework.routers import DefaultRouter  # noqa: E402

from dupeproof.http import idempotency  # noqa: E402
from dupeproof.http.drf import Idempotent  # noqa: E402

idempotent = Idempotent(store=os.environ["SHOP_STORE"], scope=lambda request: request.user.pk)


class Snippet(models.Model):
    code = models.CharField(max_length=100)
    stars = models.IntegerField(default=0)
    owner = models.ForeignKey("auth.User", related_name="snippets", on_delete=models.CASCADE)

    class Meta:
        app_label = "snippets"

    def __str__(self):
        return self.code


class SnippetSerializer(serializers.ModelSerializer):
    owner = serializers.ReadOnlyField(source="owner.username")

    class Meta:
        model = Snippet
        fields = ("id", "code", "stars", "owner")


class Snippets(viewsets.ModelViewSet):
    queryset = Snippet.objects.order_by("id")
    serializer_class = SnippetSerializer

    @idempotent
    def create(self, request, *args, **kwargs):
        return super().create(request, *args, **kwargs)

    def perform_create(self, serializer):
        serializer.save(owner=self.request.user)
        time.sleep(float(self.request.query_params.get("seconds", 0)))

    partial_update = idempotent(viewsets.ModelViewSet.partial_update)

    @action(detail=True, methods=["post"])
    @idempotent
    def star(self, request, pk=None):
        """With the record of it in one transaction."""
        with transaction.atomic(), idempotency.transaction(connection) as keep:
            snippet = self.get_object()
            snippet.stars += 1
            snippet.save()
            return keep(Response({"stars": snippet.stars}))


router = DefaultRouter()
router.register("snippets", Snippets)
urlpatterns = [path("", include(router.urls)), path("auth/", include("rest_framework.urls"))]

call_command("migrate", verbosity=0)
if Snippet._meta.db_table not in connection.introspection.table_names():
    with connection.schema_editor() as editor:
        editor.create_model(Snippet)
    idempotency.create_schema(connection)
    for name in ("ann", "bob"):
        Token.objects.create(user=User.objects.create_user(name, password=name), key=name)
connection.close()
app = get_asgi_application() if os.environ.get("SHOP_ASYNC") == "1" else get_wsgi_application()
