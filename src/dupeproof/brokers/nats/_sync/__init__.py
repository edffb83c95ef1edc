# No twin: nats-py is for tasks only, and is driven here by the thread that uses it.
"""NATS for threads."""
