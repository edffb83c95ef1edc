"""What is ordered."""

from django.db import connection, models, transaction

from dupeproof import Inbox, Outbox


class Order(models.Model):
    item = models.CharField(max_length=255)

    def __str__(self) -> str:
        return self.item


def order(request_id: str, item: str) -> bool:
    """False when the request was taken before."""
    with transaction.atomic():
        if not Inbox("orders").first(connection, request_id):
            return False
        Order.objects.create(item=item)
        Outbox().add(connection, topic="orders", payload={"item": item}, key=item)
        return True
