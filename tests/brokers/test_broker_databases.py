"""A handler is given the connection or session of the application's own database library, in the transaction of the mark."""

import pytest
import sqlalchemy
from brokers_places import MemoryPlace, message, new_queue
from django.db import connections, models
from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker, create_async_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column, sessionmaker

from dupeproof import AsyncInbox, Inbox
from support.places import django_alone, django_set_up

django_set_up()
MANY = 20


class Base(DeclarativeBase):
    """The application's tables."""


class Order(Base):
    __tablename__ = "orders"
    id: Mapped[str] = mapped_column(primary_key=True)


class Parcel(models.Model):
    """Django's."""

    id = models.CharField(primary_key=True, max_length=20)

    class Meta:
        app_label = "shop"
        db_table = "orders"

    def __str__(self):
        return self.id


@pytest.fixture
def place():
    return MemoryPlace()


@pytest.fixture
def url(tmp_path):
    url = f"sqlite:///{tmp_path}/shop.db"
    with Inbox("any", database=url).transaction() as connection:
        Inbox("any").create_schema(connection)
        connection.execute("CREATE TABLE orders (id TEXT PRIMARY KEY)")
    return url


@pytest.fixture
def worked(place, run, until, url):
    """What is there after all messages came twice, and one failed when it was tried first."""

    def consume(inbox, handler):
        queue = new_queue()
        place.declare(queue)
        sent = [message(queue, f"m-{number}", b"{}") for number in range(MANY)]
        place.publish(*sent, *sent)
        running = run(place.consumer(queue, handler, inbox=inbox, backoff="10ms"))
        until(
            lambda: running.tally.done + running.tally.duplicates == 2 * MANY or running.ended,
            lambda: (running.tally, running.error),
        )
        running.stop()
        assert running.tally.done == MANY
        with Inbox("any", database=url).transaction() as connection:
            return {row[0] for row in connection.execute("SELECT id FROM orders")}

    return consume


class Once:
    """Raises the first time it is asked."""

    def __init__(self):
        self.asked = False

    def __call__(self, each):
        if each.id == "m-7" and not self.asked:
            self.asked = True
            raise ValueError("not yet")


ALL = {f"m-{number}" for number in range(MANY)}


def test_a_session_of_the_orm(worked, url):
    fails = Once()

    def handle(each, session):
        assert isinstance(session, Session)
        session.add(Order(id=each.id))
        fails(each)

    engine = sqlalchemy.create_engine(url)
    assert worked(Inbox("billing", database=sessionmaker(engine)), handle) == ALL
    engine.dispose()


def test_an_async_session_of_the_orm(worked, url):
    fails = Once()

    async def handle(each, session):
        assert isinstance(session, AsyncSession)
        session.add(Order(id=each.id))
        fails(each)

    engine = create_async_engine(
        url.replace("sqlite", "sqlite+aiosqlite"), poolclass=sqlalchemy.pool.NullPool
    )
    assert worked(AsyncInbox("billing", database=async_sessionmaker(engine)), handle) == ALL


@pytest.mark.parametrize("scheme", ["sqlite+pysqlite", "sqlite+aiosqlite"])
def test_a_url_as_sqlalchemy_writes_it(worked, url, scheme):
    fails = Once()

    def handle(each, connection):
        assert isinstance(connection, sqlalchemy.Connection)
        connection.execute(sqlalchemy.insert(Order).values(id=each.id))
        fails(each)

    assert worked(Inbox("billing", database=url.replace("sqlite", scheme)), handle) == ALL


def test_models_of_django_inside_atomic(worked, url):
    fails = Once()

    def handle(each, connection):
        assert connection.in_atomic_block
        assert connection is connections["default"]
        Parcel.objects.create(id=each.id)
        fails(each)

    with django_alone(url):
        assert worked(Inbox("billing", database="django:default"), handle) == ALL
