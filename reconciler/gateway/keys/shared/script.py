"""The script that runs in the store: one call takes a gateway's counts, and answers its requests.

A gateway never sends a change, but always all its current counts for a key. So a call may be lost or repeated, and the
store may forget everything: after the next call, the counts are right.

Each API key is one hash with a field for each gateway. A field has, packed, the counting process (``process``), its
open requests (``open``) and their tokens (``reserved``), and the tokens of requests that ended on a day (``used``,
``day``). It also has the use of the last minute, as pairs of a time and an amount (``requests``, ``tokens``). Times are
by the store's clock: gateways send ages. The counts of a replaced process stay for their minute (``requests_before``,
``tokens_before``).

All names begin with ``{prefix}:limits:``; the braces keep them on one server of a cluster. All of them expire: by the
end of the day, and not within the minute. Data from a time when the store's clock was ahead does not count.
"""

from __future__ import annotations

SCRIPT = """
local call = cjson.decode(ARGV[1])
local time = redis.call('TIME')
local now = tonumber(time[1]) + tonumber(time[2]) / 1e6
local today = math.floor(now / 86400)
local minute = call.window
local alive_since = now - call.lease

local function seen(process)
  local at = redis.call('ZSCORE', KEYS[1], process)
  return at and tonumber(at) >= alive_since
end

local function of_today(day)
  return day == today or (day == today + 1 and now + 300 >= 86400 * day)
end

local known = redis.call('ZSCORE', KEYS[1], call.process) and true or false
redis.call('ZADD', KEYS[1], string.format('%.6f', now), call.process)
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now - 86400)
redis.call('ZREMRANGEBYSCORE', KEYS[1], string.format('(%.6f', now + 1), '+inf')
redis.call('EXPIRE', KEYS[1], 86400)
redis.call('SET', KEYS[2], string.format('%.6f', now), 'NX')
redis.call('EXPIRE', KEYS[2], 86400)
local age = now - tonumber(redis.call('GET', KEYS[2]))
if age < -1 then
  redis.call('SET', KEYS[2], string.format('%.6f', now), 'EX', 86400)
end
local settled = age >= call.settle or redis.call('ZCOUNT', KEYS[1], alive_since, '+inf') >= call.gateways

local function recent(pairs_of, into)
  for i = 1, #pairs_of, 2 do
    if pairs_of[i] > now - minute and pairs_of[i] <= now + 1 then
      into[#into + 1] = pairs_of[i]
      into[#into + 1] = pairs_of[i + 1]
    end
  end
  return into
end

local function from_ages(ages)
  local made = {}
  for i = 1, #ages, 2 do
    made[i] = now - ages[i]
    made[i + 1] = ages[i + 1]
  end
  return made
end

local function sum(taken)
  local total, newest = 0, now - minute
  for i = 1, #taken, 2 do
    total = total + taken[i + 1]
    if taken[i] > newest then newest = taken[i] end
  end
  return total, newest + minute - now
end

local function room_in(taken, amount, most)
  if amount > most then return -1 end
  local total = sum(taken)
  if total + amount <= most then return 0 end
  local order = {}
  for i = 1, #taken, 2 do order[#order + 1] = {taken[i], taken[i + 1]} end
  table.sort(order, function(a, b) return a[1] < b[1] end)
  for _, each in ipairs(order) do
    total = total - each[2]
    if total + amount <= most then return each[1] + minute - now end
  end
  return minute
end

local function answer(key, mine)
  local ahead = 0
  local requests, tokens = {}, {}
  local open, reserved, used = mine.open, mine.reserved, 0
  local all = redis.call('HGETALL', key)
  for i = 1, #all, 2 do
    local theirs = cmsgpack.unpack(all[i + 1])
    if all[i] == call.gateway then
      if theirs.process ~= call.process then
        recent(theirs.requests, mine.requests_before)
        recent(theirs.tokens, mine.tokens_before)
        if theirs.day == mine.day and theirs.used > mine.used then
          ahead = theirs.used - mine.used
          mine.used = theirs.used
        end
      end
      recent(theirs.requests_before, mine.requests_before)
      recent(theirs.tokens_before, mine.tokens_before)
    else
      recent(theirs.requests, requests)
      recent(theirs.requests_before, requests)
      recent(theirs.tokens, tokens)
      recent(theirs.tokens_before, tokens)
      if of_today(theirs.day) then used = used + theirs.used end
      if theirs.open > 0 or theirs.reserved > 0 then
        if seen(theirs.process) then
          open = open + theirs.open
          reserved = reserved + theirs.reserved
        elseif of_today(theirs.day) then
          used = used + theirs.reserved
        end
      end
    end
  end
  if of_today(mine.day) then used = used + mine.used end
  recent(mine.requests, requests)
  recent(mine.requests_before, requests)
  recent(mine.tokens, tokens)
  recent(mine.tokens_before, tokens)

  local limits = mine.limits
  local function refused(amount)
    if limits.parallel and open >= limits.parallel then return 1, call.parallel_retry end
    if limits.day then
      if used + amount > limits.day then return 4, -1 end
      if used + reserved + amount > limits.day then return 4, call.parallel_retry end
    end
    if limits.requests then
      local seconds = room_in(requests, 1, limits.requests)
      if seconds ~= 0 then return 2, seconds end
    end
    if limits.tokens then
      local seconds = room_in(tokens, amount, limits.tokens)
      if seconds ~= 0 then return 3, seconds end
    end
    return 0, 0
  end

  local function take(pairs_of, amount)
    pairs_of[#pairs_of + 1] = now
    pairs_of[#pairs_of + 1] = amount
  end

  local verdicts = {}
  for _, amount in ipairs(mine.asks) do
    local code, seconds = refused(amount)
    if code == 0 then
      open, reserved = open + 1, reserved + amount
      mine.open, mine.reserved = mine.open + 1, mine.reserved + amount
      take(requests, 1)
      take(tokens, amount)
      take(mine.requests, 1)
      take(mine.tokens, amount)
    end
    local requests_taken, requests_reset = sum(requests)
    local tokens_taken, tokens_reset = sum(tokens)
    verdicts[#verdicts + 1] = {
      code, seconds, requests_taken, requests_reset, tokens_taken, tokens_reset, used + reserved
    }
  end
  redis.call('HSET', key, call.gateway, cmsgpack.pack({
    process = call.process, open = mine.open, reserved = mine.reserved, day = mine.day, used = mine.used,
    requests = mine.requests, tokens = mine.tokens,
    requests_before = mine.requests_before, tokens_before = mine.tokens_before,
  }))
  redis.call('EXPIRE', key, math.max(86400 * (today + 1) - math.floor(now), 0) + 2 * minute)
  return {ahead = ahead, verdicts = verdicts}
end

local answers = {}
for i, mine in ipairs(call.keys) do
  mine.requests_before, mine.tokens_before = {}, {}
  mine.requests, mine.tokens = from_ages(mine.requests), from_ages(mine.tokens)
  answers[i] = answer(KEYS[2 + i], mine)
end
return cjson.encode({now = string.format('%.6f', now), known = known, settled = settled, answers = answers})
"""
"""``KEYS``: the processes that have called, the time of the first call, and the hash of each key in ``ARGV``. ``ARGV``:
one JSON object, as ``ledger`` makes it. Codes of verdicts: 0 for a request that may begin, else the place of the limit
in ``Limit``, from 1."""
