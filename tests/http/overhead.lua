-- What wrk sends: "none" no key, "new" a new key each time, "replay" one of a hundred.
local mode, count, start

function init(args)
    mode, start, count = args[1], args[2], 0
end

function request()
    local headers = { ["Content-Type"] = "application/json" }
    count = count + 1
    if mode == "new" then
        headers["Idempotency-Key"] = start .. "-" .. count
    elseif mode == "replay" then
        headers["Idempotency-Key"] = "replayed-" .. (count % 100)
    end
    return wrk.format("POST", "/orders", headers, '{"name": "o-1", "amount": 500, "currency": "eur", "n": 1}')
end

