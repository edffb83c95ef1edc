-- ARGV per key, two: window and value. Answers 1 where the mark is new.
local answers = {}
for i, key in ipairs(KEYS) do
    answers[i] = redis.call('SET', key, ARGV[2 * i], 'NX', 'PX', ARGV[2 * i - 1]) and 1 or 0
end
return answers
