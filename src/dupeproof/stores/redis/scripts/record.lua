-- A record is one string. What never changes while a claim lives comes first, so that finishing can keep it as it is:
--   state 1 (running, done, resolved and not given to anybody yet: s, failed, dead: x), hold 1, token 8, attempt 4, fingerprint 16, created 8, length of the labels 2, labels
--   hold: h under hold, - not; H and t the same of a running claim that took over an abandoned key
--   (namespace, then where there are any, each after a zero byte: name of the function, key)
-- then what the end of a claim replaces:
--   lease 8, window 8, length of the label 1, label (codec or error), result; until it is done, the journal of its steps
-- layout.py reads and writes the same bytes. Under hold the lease is when it ends; otherwise the time to live tells: it is
-- lease plus window. Then a lease that is not 0 is when the record expires at the latest, if it was made in time: one that
-- expires later was made when its caller had given up, and is void.
-- Of a dead record, which has no time to live, the lease is when it died.
local HEAD = '>c1c1c8I4c16I8I2c0'
local TAIL = '>I8I8Bc0'
local NO_FINGERPRINT = string.rep('\0', 16)

local function parse(raw)
    local r = {raw = raw}
    local at
    r.state, r.hold, r.token, r.attempt, r.fingerprint, r.created, r.labels, at = struct.unpack(HEAD, raw)
    r.took_over = r.hold == 't' or r.hold == 'H'
    r.hold = (r.hold == 'h' or r.hold == 'H') and 'h' or '-'
    r.lease, r.window, r.label, at = struct.unpack(TAIL, raw, at)
    r.result = string.sub(raw, at)
    return r
end

local function found(key, raw)
    local r = parse(raw)
    r.lease_left = r.lease - now
    if r.state == 'r' and r.hold ~= 'h' then
        local expires = redis.call('PEXPIRETIME', key)
        r.lease_left = expires - r.window - now
        r.void = 0 < r.lease and r.lease < expires
    end
    return r
end

local function load(key)
    local raw = redis.call('GET', key)
    return raw and found(key, raw)
end

-- What has no time to live waits for somebody, or may come to: it is in the index of its hash tag, where it can be found.
local function index(key)
    return 'da' .. string.sub(key, 3, 5), string.sub(key, 6)
end

local function leave_index(key)
    redis.call('ZREM', index(key))
end

local function store(key, r, window, ttl)
    local hold = r.took_over and (r.hold == 'h' and 'H' or 't') or r.hold
    local raw = struct.pack(HEAD, r.state, hold, r.token, r.attempt, r.fingerprint, r.created, #r.labels, r.labels)
        .. struct.pack(TAIL, r.lease, window, #r.label, r.label) .. r.result
    if ttl then
        redis.call('SET', key, raw, 'PX', ttl)
    else
        redis.call('SET', key, raw)
        local name, digest = index(key)
        redis.call('ZADD', name, 'NX', now, digest)
    end
end

-- While a claim is open its record outlives the lease by a window, so that the count of attempts survives a crash;
-- under hold it stays until someone resolves it.
local function store_running(key, r, lease, window)
    if r.hold == 'h' then
        r.lease = now + lease
        store(key, r, window, nil)
    else
        r.lease = 0
        store(key, r, window, lease + window)
    end
end
