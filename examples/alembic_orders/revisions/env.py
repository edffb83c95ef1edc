"""How Alembic gets to the database and to the tables."""

import orders
from alembic import context
from sqlalchemy import NullPool, create_engine

metadata = orders.Base.metadata
schemas = {"include_schemas": True} if any(table.schema for table in metadata.tables.values()) else {}

if context.is_offline_mode():
    context.configure(url=orders.DATABASE, target_metadata=metadata, literal_binds=True, **schemas)
    with context.begin_transaction():
        context.run_migrations()
else:
    with create_engine(orders.DATABASE, poolclass=NullPool).connect() as connection:
        context.configure(connection=connection, target_metadata=metadata, **schemas)
        with context.begin_transaction():
            context.run_migrations()
        connection.commit()
