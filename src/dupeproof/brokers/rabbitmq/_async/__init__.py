# No twin: aio-pika and pika are two libraries.
"""RabbitMQ for tasks, by aio-pika."""
