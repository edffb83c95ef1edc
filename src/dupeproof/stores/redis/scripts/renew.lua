-- ARGV per key, two: token, lease, window, and the token of who takes a held or abandoned key, or zeros; and the journal of
-- its steps, or nothing to leave it as it is.
local NOBODY = string.rep('\0', 8)

local function decide(key, packed, journal)
    local token, lease, window, taker = struct.unpack('>c8I8I8c8', packed)
    local r = load(key)
    if not r or r.state ~= 'r' then
        return 0
    elseif taker == NOBODY then
        if r.token ~= token then
            return 0
        end
    elseif r.token ~= taker or r.lease_left <= 0 then  -- not the same again, after a lost reply
        if r.token ~= token or r.lease_left > 0 or r.void then
            return 0
        end
        r.token = taker
    end
    if journal ~= '' then
        r.result = journal
    end
    store_running(key, r, lease, window)
    return 1
end

local answers = {}
for i, key in ipairs(KEYS) do
    answers[i] = decide(key, ARGV[2 * i - 1], ARGV[2 * i])
end
return answers
