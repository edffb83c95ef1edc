"""Migrations of Django. Each names a version of our own SQL and copies nothing of it."""
