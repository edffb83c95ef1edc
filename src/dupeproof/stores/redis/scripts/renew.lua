-- ARGV per key: token, lease, window.
local function decide(key, packed)
    local token, lease, window = struct.unpack('>c8I8I8', packed)
    local r = load(key)
    if not r or r.state ~= 'r' or r.token ~= token then
        return 0
    end
    store_running(key, r, lease, window)
    return 1
end

local answers = {}
for i, key in ipairs(KEYS) do
    answers[i] = decide(key, ARGV[i])
end
return answers
