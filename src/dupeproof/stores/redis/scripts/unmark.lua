-- ARGV per key: the head of the value as its maker wrote it: the length of the token and the token.
-- A mark without a token is nobody's to take back.
local answers = {}
for i, key in ipairs(KEYS) do
    local value = redis.call('GET', key)
    if value and #ARGV[i] > 1 and string.sub(value, 1, #ARGV[i]) == ARGV[i] then
        answers[i] = redis.call('DEL', key)
    else
        answers[i] = 0
    end
end
return answers
