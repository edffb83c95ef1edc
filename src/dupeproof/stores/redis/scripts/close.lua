-- Finish or fail. ARGV per key, three: the token and the state to reach; the window; the new tail of the record.
-- Every guarded call passes here, so the record is not taken apart: its first part stays as it is.
local answers = {}
for i, key in ipairs(KEYS) do
    local token, state = string.sub(ARGV[3 * i - 2], 1, 8), string.sub(ARGV[3 * i - 2], 9)
    local raw = redis.call('GET', key)
    if not raw or string.sub(raw, 3, 10) ~= token then
        answers[i] = 0
    elseif string.byte(raw, 1) == 114 then
        local kept = string.sub(raw, 2, 39 + string.byte(raw, 39))
        if state == 'x' then
            -- Dead: until somebody reopens or resolves it, so it must tell by itself since when.
            local time = redis.call('TIME')
            local since = struct.pack('>I8', time[1] * 1000 + math.floor(time[2] / 1000))
            redis.call('SET', key, state .. kept .. since .. string.sub(ARGV[3 * i], 9))
        else
            redis.call('SET', key, state .. kept .. ARGV[3 * i], 'PX', ARGV[3 * i - 1])
        end
        answers[i] = 1
    else
        -- The same again, after a lost reply.
        answers[i] = string.sub(raw, 1, 1) == state and 1 or 0
    end
end
return answers
