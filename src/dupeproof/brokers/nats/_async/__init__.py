# No twin: nats-py is for tasks only; threads drive it in the sync counterpart.
"""NATS for tasks."""
