-- What waits for somebody, or may come to: claims under hold, and what is dead. KEYS: the index of a hash tag.
-- ARGV: from which place in it, and how many. Answers: the server's time, how many the index has, and for each its digest,
-- its record and when that expires or a negative number.
local time = redis.call('TIME')
local found, gone = {}, {}
for _, digest in ipairs(redis.call('ZRANGE', KEYS[1], ARGV[1], ARGV[1] + ARGV[2] - 1)) do
    local key = 'dr' .. string.sub(KEYS[1], 3, 5) .. digest
    local raw = redis.call('GET', key)
    if raw then
        found[#found + 1] = {digest, raw, redis.call('PEXPIRETIME', key)}
    else
        gone[#gone + 1] = digest  -- the server was flushed, or evicted it
    end
end
if #gone > 0 then
    redis.call('ZREM', KEYS[1], unpack(gone))
end
return {time[1] * 1000 + math.floor(time[2] / 1000), redis.call('ZCARD', KEYS[1]), found, #gone}
