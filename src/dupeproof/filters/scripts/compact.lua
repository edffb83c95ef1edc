-- Ids as members of small sets of integers, which Redis keeps in about nine bytes each as long as a set has no more than
-- 512 of them. Sets belong to generations. One is closed when half a window has passed or a set of it is full, and
-- forgotten a window later; the next gets as many sets as the last one would have needed.
--   KEYS[1]: the book of generations. The names of the sets begin with the name of the book, and so share its slot.
--   ARGV[1]: the verb; [2]: window; [3]: ids expected in it; then per id 4 bytes that choose the set, and the member.
-- Nobody but this script reads or writes the book, so no two clients can have different views of it.
-- Answers per id: 1 if it was known before, else 0.
local FORM, SIZE = '>I8I8I8I4', 28  -- opened, closed or 0, window, number of sets
local AIM, FULL = 320, 500          -- members a set should have on average, and may have at most

local call, pack, unpack, sub = redis.call, struct.pack, struct.unpack, string.sub
local book_name, verb, window, expected = KEYS[1], ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local span = math.ceil(window / 2)
local time = call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

local older, current, changed = {}, nil, false
local book = call('GET', book_name) or ''
for at = 1, #book, SIZE do
    local opened, closed, lasts, sets = unpack(FORM, book, at)
    local generation = {opened = opened, closed = closed, lasts = lasts, sets = sets, name = book_name .. sub(book, at, at + 7)}
    if closed == 0 then
        current = generation
    elseif closed + lasts > now then
        older[#older + 1] = generation
    end
end

local function open(opened, ids)
    local sets = math.max(1, math.ceil(ids / AIM))
    current = {opened = opened, closed = 0, lasts = window, sets = sets, name = book_name .. pack('>I8', opened)}
    changed = true
end

-- `ids`: what the generation holds; the next is made for as many as would have come in a whole span, up to four times.
-- If the clock was set back, the next one begins just after this one, and is used until the clock has caught up.
local function close(ids)
    local age = math.max(1, math.min(now - current.opened, math.ceil(current.lasts / 2)))
    current.closed = current.opened + age
    older[#older + 1] = current
    open(math.max(now, current.opened + 1), math.min(ids * span / age, 4 * current.sets * AIM))
end

local function is_known(choice, member)
    for i = #older, 1, -1 do
        local generation = older[i]
        if call('SISMEMBER', generation.name .. pack('>I4', choice % generation.sets), member) == 1 then
            return true
        end
    end
    return false
end

local verbs = {}

function verbs.add(choice, member)
    if is_known(choice, member) then
        return 1
    end
    local name = current.name .. pack('>I4', choice % current.sets)
    if call('SADD', name, member) == 0 then
        return 1
    end
    local size = call('SCARD', name)
    if size == 1 then
        call('PEXPIREAT', name, string.format('%.0f', current.opened + math.ceil(1.5 * current.lasts)))
    elseif size >= FULL then
        close(size * current.sets)
    end
    return 0
end

function verbs.look(choice, member)
    if is_known(choice, member) then
        return 1
    end
    return current and call('SISMEMBER', current.name .. pack('>I4', choice % current.sets), member) or 0
end

function verbs.forget(choice, member)
    local gone = current and call('SREM', current.name .. pack('>I4', choice % current.sets), member) or 0
    for _, generation in ipairs(older) do
        gone = gone + call('SREM', generation.name .. pack('>I4', choice % generation.sets), member)
    end
    return math.min(gone, 1)
end

if verb == 'add' then
    if not current then
        open(now, expected / 2)
    end
    -- Others may use this namespace with another window, such as before a change of it: each mark lasts as long as its
    -- maker's, or longer.
    if now - current.opened >= span or current.lasts < window then
        local looked_at, ids = math.min(current.sets, 16), 0
        for number = 0, looked_at - 1 do
            ids = ids + call('SCARD', current.name .. pack('>I4', number))
        end
        close(ids * current.sets / looked_at)
    end
end

local decide, answers = verbs[verb], {}
for i = 4, #ARGV do
    local id = ARGV[i]
    answers[i - 3] = decide(unpack('>I4', id), sub(id, 5))
end

if changed then
    older[#older + 1] = current
    local longest = 0
    for i, generation in ipairs(older) do
        longest = math.max(longest, generation.lasts)
        older[i] = pack(FORM, generation.opened, generation.closed, generation.lasts, generation.sets)
    end
    call('SET', book_name, table.concat(older), 'PX', 3 * longest)
end
return answers
