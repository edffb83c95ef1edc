"""Messages from and to brokers: each folder is one broker, all of them do the same.

from dupeproof.brokers.rabbitmq import RabbitPublisher, consume

consume("amqp://…", queue="orders", handler=handle, inbox=inbox)
"""
