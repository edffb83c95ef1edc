"""Orders, and what dupeproof keeps."""

import sqlalchemy as sa
from alembic import op
from orders import SCHEMA

import dupeproof.alembic

revision = "0001"
down_revision = None


def upgrade() -> None:
    dupeproof.alembic.upgrade(op, schema=SCHEMA)
    op.create_table(
        "orders",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("item", sa.String(255), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )


def downgrade() -> None:
    op.drop_table("orders")
    dupeproof.alembic.downgrade(op, schema=SCHEMA)
