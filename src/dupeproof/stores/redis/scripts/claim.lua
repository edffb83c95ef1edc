-- ARGV: the moment after which nobody waits for the answer any more; then per key three: the record of a first
-- attempt, its time to live, and lease and limit of attempts.
-- Answers per key: 0 for a first attempt, {'w', attempt, took over}, {'d', record}, {'b', lease left}, {'m'}, {'h', attempt},
-- {'x', attempt, newly}.
if now > tonumber(ARGV[1]) then
    return redis.error_reply('LATE nothing was done')
end

local function take(key, record, ttl, lease)
    if string.byte(record, 2) == 104 then
        -- Under hold: it stays for good, so it must tell by itself when the lease is over.
        local at = 40 + string.byte(record, 39)
        record = string.sub(record, 1, at - 1) .. struct.pack('>I8', now + lease) .. string.sub(record, at + 8)
        return redis.pcall('SET', key, record, 'NX', 'GET')
    end
    return redis.pcall('SET', key, record, 'NX', 'GET', 'PX', ttl)
end

local function decide(key, raw, asked, lease, limit)
    local r = found(key, raw)
    if asked.fingerprint ~= NO_FINGERPRINT and r.fingerprint ~= NO_FINGERPRINT and asked.fingerprint ~= r.fingerprint then
        return {'m'}
    end
    if r.state == 'd' then
        return {'d', raw}
    end
    if r.token == asked.token then
        if r.state == 'r' then
            store_running(key, r, lease, asked.window)
            return {'w', r.attempt, 0}
        elseif r.state == 'x' then
            return {'x', r.attempt, 1}
        end
        return {'b', 0}  -- a copy that was under way for long; its maker has failed since
    end
    if r.state == 'x' then
        return {'x', r.attempt, 0}
    end
    local abandoned = false
    if r.state == 'r' then
        if r.lease_left > 0 then
            return {'b', r.lease_left}
        elseif r.hold == 'h' then
            return {'h', r.attempt}
        end
        abandoned = true
    end
    if limit > 0 and r.attempt >= limit then
        r.state, r.token, r.lease = 'x', asked.token, now
        store(key, r, asked.window, nil)
        return {'x', r.attempt, 1}
    end
    if r.fingerprint == NO_FINGERPRINT then
        r.fingerprint = asked.fingerprint
    end
    r.state, r.hold, r.token, r.attempt, r.namespace = 'r', asked.hold, asked.token, r.attempt + 1, asked.namespace
    r.label = ''
    store_running(key, r, lease, asked.window)
    return {'w', r.attempt, abandoned and 1 or 0}
end

local answers = {}
for i, key in ipairs(KEYS) do
    local record, ttl = ARGV[3 * i - 1], ARGV[3 * i]
    local lease, limit = struct.unpack('>I8I4', ARGV[3 * i + 1])
    local there = take(key, record, ttl, lease)
    if type(there) == 'table' then
        -- A server that is full, or may not write for another reason, can still tell what was done.
        local refusal = there
        there = not string.find(refusal.err, 'READONLY') and redis.call('GET', key)
        if not there or string.byte(there, 1) ~= 100 then
            return refusal
        end
    end
    answers[i] = there and decide(key, there, parse(record), lease, limit) or 0
end
return answers
