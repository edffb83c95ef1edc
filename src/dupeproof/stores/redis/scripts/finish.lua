-- Finish, fail or hold. ARGV per key, three: the token and the state to reach; the window; the new tail of the record.
-- Every guarded call passes here, so the record is not taken apart: its first part stays as it is.
local answers = {}
for i, key in ipairs(KEYS) do
    local token, state = string.sub(ARGV[3 * i - 2], 1, 8), string.sub(ARGV[3 * i - 2], 9)
    local raw = redis.call('GET', key)
    if not raw or string.sub(raw, 3, 10) ~= token then
        answers[i] = 0
    elseif string.byte(raw, 1) == 114 then
        local index, digest = 'da' .. string.sub(key, 3, 5), string.sub(key, 6)
        local head = 40 + struct.unpack('>I2', raw, 39)
        local kept = string.sub(raw, 3, head)
        local under_hold = string.find(string.sub(raw, 2, 2), '[hH]') ~= nil
        local hold = under_hold and 'h' or '-'
        local journal = state == 'd' and '' or string.sub(raw, head + 18 + string.byte(raw, head + 17))
        if state == 'x' or state == 'h' then
            -- Until somebody reopens or resolves it, so it must say by itself since when. What is held is a claim under hold
            -- whose lease is over.
            local time = redis.call('TIME')
            local now = time[1] * 1000 + math.floor(time[2] / 1000)
            local since = struct.unpack('>I8', ARGV[3 * i])
            if state == 'h' and since > 0 and since < now then
                now = since
            end
            local reached = state == 'h' and 'rh' or 'x' .. hold
            local tail = struct.pack('>I8', now) .. string.sub(ARGV[3 * i], 9) .. journal
            redis.call('SET', key, reached .. kept .. tail)
            redis.call('ZADD', index, 'NX', now, digest)
        else
            if under_hold then
                redis.call('ZREM', index, digest)
            end
            local tail = ARGV[3 * i] .. journal
            redis.call('SET', key, state .. hold .. kept .. tail, 'PX', ARGV[3 * i - 1])
        end
        answers[i] = 1
    else
        -- The same again, after a lost reply.
        answers[i] = string.sub(raw, 1, 1) == state and 1 or 0
    end
end
return answers
