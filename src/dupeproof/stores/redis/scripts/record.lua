-- A record is one string: a fixed head, two short texts (namespace; codec or error) and the result.
-- layout.py reads and writes the same bytes.
local HEAD = '>c1c1c8I4c16I8I8I8'
local NO_FINGERPRINT = string.rep('\0', 16)

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

local function load(key)
    local raw = redis.call('GET', key)
    if not raw then
        return nil
    end
    local r = {raw = raw}
    local at
    r.state, r.hold, r.token, r.attempt, r.fingerprint, r.created, r.lease, r.finished, at = struct.unpack(HEAD, raw)
    r.namespace, r.label, at = struct.unpack('>Bc0Bc0', raw, at)
    r.result = string.sub(raw, at)
    return r
end

local function store(key, r, ttl)
    local raw = struct.pack(HEAD, r.state, r.hold, r.token, r.attempt, r.fingerprint, r.created, r.lease, r.finished)
        .. struct.pack('>Bc0Bc0', #r.namespace, r.namespace, #r.label, r.label) .. r.result
    if ttl then
        redis.call('SET', key, raw, 'PX', ttl)
    else
        redis.call('SET', key, raw)
    end
end

-- While a claim is open its record outlives the lease by a window, so that the count of attempts survives a crash;
-- under hold it stays until someone resolves it.
local function store_running(key, r, lease, window)
    r.lease = now + lease
    if r.hold == 'h' then
        store(key, r, nil)
    else
        store(key, r, lease + window)
    end
end

local function owned(r, token)
    return r and r.state == 'r' and r.token == token
end
