-- Touch entries of a consumer that are still its own. Someone else's are left alone: XCLAIM by itself would take them.
-- ARGV: group, consumer, then id, idle milliseconds and deliveries to count (-1: as they are) of each. Answers how many.
local kept = 0
for i = 3, #ARGV, 3 do
    local found = redis.call('XPENDING', KEYS[1], ARGV[1], ARGV[i], ARGV[i], 1, ARGV[2])
    if #found > 0 then
        local count = tonumber(ARGV[i + 2])
        if count < 0 then count = found[1][4] end
        redis.call('XCLAIM', KEYS[1], ARGV[1], ARGV[2], 0, ARGV[i], 'IDLE', ARGV[i + 1], 'RETRYCOUNT', count, 'JUSTID')
        kept = kept + 1
    end
end
return kept
