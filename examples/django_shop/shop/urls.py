"""Nothing but the admin, which lists held and dead keys."""

from django.contrib import admin
from django.urls import path

urlpatterns = [path("admin/", admin.site.urls)]
