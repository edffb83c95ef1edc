-- ARGV per key: token, window, o to reopen (without a live claim) or - to hand one's own claim back.
local function decide(key, packed)
    local token, window, how = struct.unpack('>c8I8c1', packed)
    local r = load(key)
    if not r or r.token ~= token or r.state == 'd' or r.state == 's' then
        return 0
    end
    local reopens = how == 'o'
    local live = r.state == 'r' and r.lease_left > 0
    if reopens and live or not reopens and r.state ~= 'r' then
        return 0
    end
    if r.took_over and not reopens then
        -- A claim that took over an abandoned key leaves it abandoned.
        r.attempt, r.took_over = r.attempt - 1, false
        if r.hold == 'h' then
            r.lease = math.min(r.lease, now)
            store(key, r, window, nil)
        else
            r.lease = 0
            store(key, r, window, window)
        end
        return 1
    end
    leave_index(key)
    r.attempt = reopens and 0 or r.attempt - 1
    if r.attempt == 0 and r.result == '' then
        redis.call('DEL', key)
    else
        r.state, r.took_over = 'f', false
        store(key, r, window, window)
    end
    return 1
end

local answers = {}
for i, key in ipairs(KEYS) do
    answers[i] = decide(key, ARGV[i])
end
return answers
