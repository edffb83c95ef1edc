-- ARGV per key, two: token, resolver (zeros: none), window, codec; and the result.
local NO_RESOLVER = string.rep('\0', 8)

local function decide(key, packed, result)
    local token, resolver, window, codec = struct.unpack('>c8c8I8Bc0', packed)
    local r = load(key)
    if not r or r.token ~= token then
        return 0
    end
    if resolver == NO_RESOLVER then
        if r.state == 'd' then
            return 1
        elseif r.state ~= 'r' then
            return 0
        end
    else
        if r.state == 'd' or (r.state == 'r' and r.lease > now) then
            return 0
        end
        r.token = resolver
    end
    r.state, r.finished, r.label, r.result = 'd', now, codec, result
    store(key, r, window)
    return 1
end

local answers = {}
for i, key in ipairs(KEYS) do
    answers[i] = decide(key, ARGV[2 * i - 1], ARGV[2 * i])
end
return answers
