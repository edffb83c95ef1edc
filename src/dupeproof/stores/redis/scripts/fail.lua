-- ARGV per key: token, window, state to reach (f or x), error.
local function decide(key, packed)
    local token, window, after, failure = struct.unpack('>c8I8c1Bc0', packed)
    local r = load(key)
    if r and r.token == token and r.state == after then
        return 1
    elseif not owned(r, token) then
        return 0
    end
    r.state, r.finished, r.label = after, now, failure
    store(key, r, window)
    return 1
end

local answers = {}
for i, key in ipairs(KEYS) do
    answers[i] = decide(key, ARGV[i])
end
return answers
