-- A place among the copies. KEYS: the place. ARGV: the first bytes of what it holds while it is reserved under the caller's
-- token, the value to keep, or nothing to give the place up, '=' and the fingerprint to keep with it, or nothing for the
-- one it was reserved with, and for how many milliseconds it is good from when the place was reserved.
-- A reservation goes on with the milliseconds it was made for, as eight bytes, and the fingerprint.
local held = redis.call('GET', KEYS[1])
if not held or string.sub(held, 1, #ARGV[1]) ~= ARGV[1] then
    return 0
end
local reserved = struct.unpack('>I8', string.sub(held, #ARGV[1] + 1, #ARGV[1] + 8))
local left = redis.call('PTTL', KEYS[1]) - math.max(0, reserved - tonumber(ARGV[4]))
if ARGV[2] == '' or left <= 0 then
    return redis.call('DEL', KEYS[1])
end
local fingerprint = ARGV[3] ~= '' and string.sub(ARGV[3], 2) or string.sub(held, #ARGV[1] + 9)
redis.call('SET', KEYS[1], ARGV[2] .. fingerprint, 'PX', left)
return 1
