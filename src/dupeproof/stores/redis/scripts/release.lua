-- ARGV per key: token, window, o to reopen (without a live claim) or - to hand one's own claim back.
local function decide(key, packed)
    local token, window, how = struct.unpack('>c8I8c1', packed)
    local r = load(key)
    if how == 'o' then
        local live = r and r.state == 'r' and r.lease > now
        if not r or r.token ~= token or r.state == 'd' or live then
            return 0
        end
        redis.call('DEL', key)
        return 1
    end
    if not owned(r, token) then
        return 0
    end
    if r.attempt == 1 then
        redis.call('DEL', key)
    else
        r.state, r.attempt, r.finished = 'f', r.attempt - 1, now
        store(key, r, window)
    end
    return 1
end

local answers = {}
for i, key in ipairs(KEYS) do
    answers[i] = decide(key, ARGV[i])
end
return answers
