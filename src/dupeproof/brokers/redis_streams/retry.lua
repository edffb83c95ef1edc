-- Put a dead letter back, if it is still there: added to its stream and removed in one step.
-- KEYS: the dead letters, the stream it came from. ARGV: its id, then fields and values. Says which of the two was missing.
if #redis.call('XRANGE', KEYS[1], ARGV[1], ARGV[1]) == 0 then
  return 'gone'
end
if not redis.call('XADD', KEYS[2], 'NOMKSTREAM', '*', unpack(ARGV, 2)) then
  return 'unroutable'
end
redis.call('XDEL', KEYS[1], ARGV[1])
return 'done'
