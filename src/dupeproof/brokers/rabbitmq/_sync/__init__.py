# No twin: pika and aio-pika are two libraries.
"""RabbitMQ for threads, by pika."""
