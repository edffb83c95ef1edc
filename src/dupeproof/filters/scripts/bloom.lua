-- A Bloom filter in a string: what it was made for (capacity 8, error rate 8), how many ids were added 8, then the bits.
--   ARGV[1]: add or look; [2]: what it is made for; [3]: number of bits; [4]: places per id; [5]: the ids, 8 bytes each.
-- Answers {one letter per id, 1 if it was surely not there before; ids added}, or {what it was made for} if that is other.
local call = redis.call
local key, verb, made_for, size, places = KEYS[1], ARGV[1], ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])
local ids = ARGV[5]
local HEAD = 24

local head = call('GETRANGE', key, 0, HEAD - 1)
local added = 0
if head ~= '' then
    if string.sub(head, 1, 16) ~= made_for then
        return {string.sub(head, 1, 16)}
    end
    added = struct.unpack('>I8', head, 17)
elseif verb == 'look' then
    return {string.rep('1', #ids / 8), 0}
else
    call('SETRANGE', key, HEAD + math.ceil(size / 8) - 1, '\0')  -- all of it at once, not piece by piece
end

-- One command for all places of an id, which answers with the bits as they were: SET u1 place 1, or GET u1 place.
local words = verb == 'add' and {'SET', 'u1', 0, '1'} or {'GET', 'u1', 0}
local command = {'BITFIELD', key}
for i = 1, places do
    for _, word in ipairs(words) do
        command[#command + 1] = word
    end
end

local answers = {}
for at = 1, #ids, 8 do
    local place, stride = struct.unpack('>I4I4', ids, at)
    place, stride = place % size, stride % size
    for i = 1, places do
        command[#words * (i - 1) + 5] = 8 * HEAD + place
        place, stride = (place + stride) % size, (stride + i) % size
    end
    local before, is_new = call(unpack(command)), '0'
    for i = 1, places do
        if before[i] == 0 then
            is_new = '1'
            added = added + 1
            break
        end
    end
    answers[#answers + 1] = is_new
end
if verb == 'add' then
    call('SETRANGE', key, 0, made_for .. struct.pack('>I8', added))
end
return {table.concat(answers), added}
