-- ARGV per key: token, window.
local function decide(key, packed)
    local token, window = struct.unpack('>c8I8', packed)
    local r = load(key)
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
