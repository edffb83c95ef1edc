-- For keys that could not be decided at once. Answers per key, beside those: {'w', attempt, took over}, {'b', lease left}, {'m'},
-- {'h', attempt}, {'x', attempt, newly}.
local function decide(key, raw, asked, lease, limit)
    local r = found(key, raw)
    if r.void and r.token ~= asked.token then
        store_running(key, asked, lease, asked.window)
        return 0
    end
    if asked.fingerprint ~= NO_FINGERPRINT and r.fingerprint ~= NO_FINGERPRINT and asked.fingerprint ~= r.fingerprint then
        return {'m'}
    end
    if r.state == 'd' then
        return raw
    end
    if r.state == 's' then
        -- From now on somebody has this result.
        redis.call('SET', key, 'd' .. string.sub(raw, 2), 'KEEPTTL')
        return raw
    end
    if r.token == asked.token then
        if r.state == 'r' then
            store_running(key, r, lease, asked.window)
            return {'w', r.attempt, r.took_over and 1 or 0}
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
        r.state, r.token, r.lease, r.took_over = 'x', asked.token, now, false
        store(key, r, asked.window, nil)
        return {'x', r.attempt, 1}
    end
    if r.fingerprint == NO_FINGERPRINT then
        r.fingerprint = asked.fingerprint
    end
    r.state, r.hold, r.token, r.attempt, r.labels = 'r', asked.hold, asked.token, r.attempt + 1, asked.labels
    r.label, r.took_over = '', abandoned
    store_running(key, r, lease, asked.window)
    return {'w', r.attempt, abandoned and 1 or 0}
end

for i, key in ipairs(KEYS) do
    if undecided[i] then
        local lease, limit = struct.unpack('>I8I4', ARGV[3 * i + 1])
        -- Read again: the same key may stand in the batch twice.
        answers[i] = decide(key, redis.call('GET', key), parse(ARGV[3 * i - 1]), lease, limit)
    end
end
return answers
