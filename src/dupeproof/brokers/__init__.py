"""Messages from and to brokers: each folder is one broker, all of them do the same.

from dupeproof.brokers.rabbitmq import RabbitPublisher, consume

consume("amqp://…", queue="orders", handler=handle, inbox=inbox)
"""

from typing import TYPE_CHECKING

from dupeproof.lazy import lazily

if TYPE_CHECKING:
    from dupeproof.brokers.dead import DeadLetter, DeadLetters, dead_letters

__all__ = ["DeadLetter", "DeadLetters", "dead_letters"]

__getattr__ = lazily(__name__, dict.fromkeys(__all__, "dead"))
