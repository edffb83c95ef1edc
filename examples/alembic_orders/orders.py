"""Orders and the messages about them in one transaction, with all tables in the revisions of Alembic.

pip install "dupeproof[alembic,postgres]" && python examples/alembic_orders/orders.py tea
"""

import os
import sys
from pathlib import Path

from alembic import command
from alembic.config import Config
from sqlalchemy import String, create_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column

import dupeproof.sqlalchemy
from dupeproof import Inbox, Outbox

DATABASE = os.environ.get("DATABASE", "sqlite:///orders.db")
SCHEMA = os.environ.get("SCHEMA")
"""Where the tables of dupeproof are, where that is not with the others; search_path in DATABASE has it too then."""


class Base(DeclarativeBase):
    pass


class Order(Base):
    __tablename__ = "orders"

    id: Mapped[int] = mapped_column(primary_key=True)
    item: Mapped[str] = mapped_column(String(255))


dupeproof.sqlalchemy.tables(
    Base.metadata, schema=SCHEMA, dialect=DATABASE.partition(":")[0].partition("+")[0]
)


def order(session: Session, request_id: str, item: str) -> bool:
    """False when the request was taken before."""
    if not Inbox("orders").first(session, request_id):
        return False
    session.add(Order(item=item))
    Outbox().add(session, topic="orders", payload={"item": item}, key=item)
    return True


if __name__ == "__main__":
    command.upgrade(Config(Path(__file__).with_name("alembic.ini")), "head")
    engine = create_engine(DATABASE)
    with Session(engine) as session, session.begin():
        print("ordered" if order(session, request_id=sys.argv[1], item=sys.argv[1]) else "ordered before")
    engine.dispose()
