-- core/sequences.py in Lua. A row is one string: epoch 8, floor 8, then a bitmap of the numbers that came, which begins
-- at the last multiple of eight up to the floor, so that its bytes never need to be shifted.
-- ARGV: the moment after which nobody waits for the answer any more; then per key: epoch, number, gap.
-- Answers per key: 0 fresh, 1 duplicate, 2 fenced, 3 too old.
local time = redis.call('TIME')
if time[1] * 1000 + math.floor(time[2] / 1000) > tonumber(ARGV[1]) then
    return redis.error_reply('LATE nothing was done')
end

local function decide(key, packed)
    local epoch, number, gap = struct.unpack('>I8I8I4', packed)
    local raw = redis.call('GET', key)
    local known, floor, bits = -1, 0, ''
    if raw then
        known, floor = struct.unpack('>I8I8', raw)
        bits = string.sub(raw, 17)
    end
    if epoch < known then
        return 2
    elseif epoch > known then
        floor, bits = math.max(0, number - gap + 1), ''
    end
    if number < floor then
        return 3
    end
    local base = floor - floor % 8
    local place = math.floor((number - base) / 8) + 1
    local byte, flag = string.byte(bits, place) or 0, 2 ^ (number % 8)
    if bit.band(byte, flag) ~= 0 then
        return 1
    end
    floor = math.max(floor, number - gap + 1)
    local drop = (floor - floor % 8 - base) / 8
    bits, place = string.sub(bits, drop + 1), place - drop
    bits = string.sub(bits, 1, place - 1) .. string.rep('\0', place - 1 - #bits) .. string.char(byte + flag)
        .. string.sub(bits, place + 1)
    redis.call('SET', key, struct.pack('>I8I8', epoch, floor) .. bits)
    return 0
end

local answers = {}
for i, key in ipairs(KEYS) do
    answers[i] = decide(key, ARGV[i + 1])
end
return answers
