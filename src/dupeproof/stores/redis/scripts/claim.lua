-- For keys that SET NX GET could not decide, and for those under hold.
-- ARGV per key: token, fingerprint, lease, window, hold, limit, namespace.
-- Answers per key: {'w', attempt, took over}, {'d', record}, {'b', lease left}, {'m'}, {'h', attempt}, {'x', attempt, newly}.
local function decide(key, packed)
    local token, fingerprint, lease, window, hold, limit, namespace = struct.unpack('>c8c16I8I8c1I4Bc0', packed)
    local r = load(key)
    if not r then
        r = {state = 'r', hold = hold, token = token, attempt = 1, fingerprint = fingerprint, created = now,
             namespace = namespace, label = ''}
        store_running(key, r, lease, window)
        return {'w', 1, 0}
    end
    if fingerprint ~= NO_FINGERPRINT and r.fingerprint ~= NO_FINGERPRINT and fingerprint ~= r.fingerprint then
        return {'m'}
    end
    if r.state == 'd' then
        return {'d', r.raw}
    end
    if r.token == token then
        if r.state == 'r' then
            store_running(key, r, lease, window)
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
        r.state, r.token = 'x', token
        store(key, r, window, window)
        return {'x', r.attempt, 1}
    end
    if r.fingerprint == NO_FINGERPRINT then
        r.fingerprint = fingerprint
    end
    r.state, r.hold, r.token, r.attempt, r.namespace = 'r', hold, token, r.attempt + 1, namespace
    r.label = ''
    store_running(key, r, lease, window)
    return {'w', r.attempt, abandoned and 1 or 0}
end

local answers = {}
for i, key in ipairs(KEYS) do
    answers[i] = decide(key, ARGV[i])
end
return answers
