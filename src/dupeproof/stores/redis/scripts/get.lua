-- Answers per key: {value, when it expires or a negative number, the server's time}, or false.
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local answers = {}
for i, key in ipairs(KEYS) do
    local value = redis.call('GET', key)
    answers[i] = value and {value, redis.call('PEXPIRETIME', key), now}
end
return answers
