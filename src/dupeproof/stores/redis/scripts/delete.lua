-- ARGV: the moment after which nobody waits for the answer any more. Answers per key: how many went, none or one.
local time = redis.call('TIME')
if time[1] * 1000 + math.floor(time[2] / 1000) > tonumber(ARGV[1]) then
    return redis.error_reply('LATE nothing was done')
end
local answers = {}
for i, key in ipairs(KEYS) do
    answers[i] = redis.call('DEL', key)
    if string.sub(key, 1, 2) == 'dr' then
        redis.call('ZREM', 'da' .. string.sub(key, 3, 5), string.sub(key, 6))
    end
end
return answers
