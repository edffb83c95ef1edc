-- ARGV per key, three: the token found and the new one; the window; the new tail of the record.
local function decide(key, tokens, window, tail)
    local token, resolver = string.sub(tokens, 1, 8), string.sub(tokens, 9)
    local r = load(key)
    if not r or r.token ~= token or r.state == 'd' or (r.state == 'r' and r.lease_left > 0) then
        return 0
    end
    local rest = string.sub(r.raw, 11, 40 + struct.unpack('>I2', r.raw, 39))
    leave_index(key)
    redis.call('SET', key, 's' .. r.hold .. resolver .. rest .. tail, 'PX', window)
    return 1
end

local answers = {}
for i, key in ipairs(KEYS) do
    answers[i] = decide(key, ARGV[3 * i - 2], ARGV[3 * i - 1], ARGV[3 * i])
end
return answers
