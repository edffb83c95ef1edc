"""What the three apps on Django have in common."""

import django
import goods
from django.conf import settings


def configure(urls: str, *, guarded_by_middleware: bool = True, apps: tuple[str, ...] = ()) -> None:
    guard = ["dupeproof.http.django.IdempotencyMiddleware"] if guarded_by_middleware else []
    settings.configure(
        ALLOWED_HOSTS=["*"],
        DEBUG=False,
        ROOT_URLCONF=urls,
        SECRET_KEY="battery",
        LOGGING_CONFIG=None,
        INSTALLED_APPS=apps,
        REST_FRAMEWORK={"DEFAULT_AUTHENTICATION_CLASSES": [], "UNAUTHENTICATED_USER": None},
        # In the order of Django's own documentation, and ours after them.
        MIDDLEWARE=[
            "django.middleware.security.SecurityMiddleware",
            "django.middleware.gzip.GZipMiddleware",
            "django.middleware.common.CommonMiddleware",
            *guard,
        ],
        DUPEPROOF_HTTP={**goods.OPTIONS, "scope": "goods.caller"},
    )
    django.setup(set_prefix=False)


def application():
    if goods.IS_ASGI:
        from django.core.asgi import get_asgi_application

        return get_asgi_application()
    from django.core.wsgi import get_wsgi_application

    return get_wsgi_application()


def pieces(asked):
    return goods.pieces_async(asked) if goods.IS_ASGI else goods.pieces(asked)
