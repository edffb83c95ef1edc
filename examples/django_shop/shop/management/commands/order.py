"""python manage.py order REQUEST ITEM"""

from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from shop.models import order


class Command(BaseCommand):
    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("request_id")
        parser.add_argument("item")

    def handle(self, *_: Any, request_id: str, item: str, **__: Any) -> None:
        self.stdout.write("ordered" if order(request_id, item) else "ordered before")
