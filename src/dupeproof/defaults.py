"""Every default that a user can meet, in one place: the library's signatures and the command's options take it from here."""

# Guards: Once, Cooldown, the HTTP middlewares, consume(once=…).
NAMESPACE = "default"
"""Keys of one namespace are not those of another."""
WINDOW = "24h"
"""How long a finished key, a mark, or a message in an inbox is remembered."""
LEASE = "60s"
"""How long a claim holds without a heartbeat. A crash blocks its key for as long."""
HEARTBEATS_PER_LEASE = 3
"""A slow handler renews its claim this often within a lease."""
BUSY_WAIT = "10s"
"""How long `on_busy="wait"` waits for the result of another caller."""
CACHE_FOR = "60s"
"""How long a replay from this process may miss a `forget` of another one."""
LEEWAY = "1h"
"""How long a used token is remembered after it has expired, for clocks that differ."""

# Stores: options of the URL.
STORE_TIMEOUT = "5s"
"""When a store that does not answer counts as down."""
FAST_TIER_TIMEOUT = "500ms"
"""The same for the fast store of two tiers, which can be done without."""

# Inbox, outbox and relay.
MAX_PAYLOAD = 1_000_000
"""Bytes of a message in the outbox. With its headers it is less than the 1 MiB that NATS and Kafka take by default."""
MAX_HEADERS = 32_768
"""Bytes of all headers of a message in the outbox. RabbitMQ wants them in one frame, of 128 kB by default."""
RELAY_BATCH = 500
"""Messages a relay takes at a time."""
RELAY_LEASE = "30s"
"""After which another relay takes over from one that is gone."""
RELAY_POLL = "500ms"
"""How often a relay looks, where the database does not wake it."""
RELAY_MAX_BACKOFF = "5m"
RELAY_DRAIN = "10s"
"""How long a relay goes on with what is in hand after `stop()`."""

# Retries, of consumers and relays alike.
MAX_ATTEMPTS = 10
"""After which a message is dead-lettered."""
BACKOFF = "1s"
"""After the first failure; doubled each time."""
CONSUMER_MAX_BACKOFF = "1m"

# Consumers and publishers.
CONCURRENCY = 1
"""Handlers that run at once."""
CONSUMER_BATCH = 100
"""Messages that share a transaction of the inbox."""
CONSUMER_DRAIN = "20s"
"""How long handlers may go on after `stop()`."""
PUBLISH_TIMEOUT = "30s"
"""How long a publisher waits for the broker's confirmation."""
NATS_PUBLISH_TIMEOUT = "10s"
HEALTHY_WITHIN = "30s"
"""How long ago a healthy consumer has looked at its broker."""
TRANSACTION_TIMEOUT = "1m"
"""Of Kafka, after which it aborts the transaction of a transformer."""
NATS_ACK_WAIT = "30s"
"""After which NATS delivers again what was not acknowledged."""
STREAM_TAKEOVER = "60s"
"""After which another consumer of a Redis stream takes what one has left."""

# HTTP.
HANDLER_DRAIN = "20s"
"""How long a server that shuts down waits for handlers whose client has gone."""
RESPONSE_LIMIT = 2**20
"""Bytes of a response that is stored. A larger one is sent, and its key is not replayed."""
STREAM_AFTER = "1s"
"""After which a response without a length is sent as a stream."""
CLIENT_DEADLINE = "60s"
"""For all tries of a request together."""
CLIENT_BACKOFF = "200ms"
CLIENT_LONGEST_BACKOFF = "10s"

# Cleanup.
PURGE_EVERY = "15m"
PURGE_BATCH = 5_000
"""Rows that are removed in one transaction."""
PURGE_PAUSE = 0.5
"""Of the time a batch took: the rest that writers get after it."""

# Exporter.
EXPORTER_PORT = 9100
EXPORTER_INTERVAL = "15s"
"""A store is read at most once in this time."""
EXPORTER_TIMEOUT = "5s"
"""After which a store that does not answer is shown as down."""
