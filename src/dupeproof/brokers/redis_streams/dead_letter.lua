-- Put an entry aside and acknowledge it, in this order: a script stops at its first error, a transaction does not.
-- KEYS: the stream, the one for the dead. ARGV: group, id, then fields and values.
redis.call('XADD', KEYS[2], '*', unpack(ARGV, 3))
return redis.call('XACK', KEYS[1], ARGV[1], ARGV[2])
