-- KEYS in pairs: the record and the mark of one id. Answers 1 where either was there.
local answers = {}
for i = 1, #KEYS, 2 do
    answers[(i + 1) / 2] = math.min(1, redis.call('DEL', KEYS[i], KEYS[i + 1]))
end
return answers
