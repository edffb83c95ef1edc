-- What most claims come to: a key that is new, or done. Answers per key: 0 for a first attempt, the record of what is done;
-- for the others claim.lua goes on.
-- ARGV: the moment after which nobody waits for the answer any more; then per key three: the record of a first
-- attempt, its time to live, and lease and limit of attempts.
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
if now > tonumber(ARGV[1]) then
    return redis.error_reply('LATE nothing was done')
end
local answers, undecided = {}, nil
for i, key in ipairs(KEYS) do
    local record, there = ARGV[3 * i - 1], nil
    if string.byte(record, 2) == 104 then
        -- Under hold: it stays for good, so it must tell by itself when the lease is over.
        local at, lease = 41 + struct.unpack('>I2', record, 39), struct.unpack('>I8', ARGV[3 * i + 1])
        record = string.sub(record, 1, at - 1) .. struct.pack('>I8', now + lease) .. string.sub(record, at + 8)
        there = redis.pcall('SET', key, record, 'NX', 'GET')
        if not there then
            redis.call('ZADD', 'da' .. string.sub(key, 3, 5), 'NX', now, string.sub(key, 6))
        end
    else
        there = redis.pcall('SET', key, record, 'NX', 'GET', 'PX', ARGV[3 * i])
    end
    if type(there) == 'table' then
        -- A server that is full, or may not write for another reason, can still tell what was done.
        local refusal = there
        there = not string.find(refusal.err, 'READONLY') and redis.call('GET', key)
        if not there or string.byte(there, 1) ~= 100 then
            return refusal
        end
    end
    if not there then
        answers[i] = 0
    elseif string.byte(there, 1) == 100 and string.sub(there, 15, 30) == string.sub(record, 15, 30) then
        answers[i] = there
    else
        undecided = undecided or {}
        undecided[i] = true
    end
end
if not undecided then
    return answers
end

