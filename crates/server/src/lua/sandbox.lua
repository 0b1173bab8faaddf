-- What scripts see of Lua: Redis's globals, which cannot be changed. Runs once in each Lua state. Gets a table of the
-- server's functions; returns what the server calls.
local host = ...
local outside = _G
local error, type, tostring, select, next = error, type, tostring, select, next
local raw_pcall, raw_xpcall, raw_pairs, raw_ipairs = pcall, xpcall, pairs, ipairs
local raw_rawset, raw_rawget = rawset, rawget
local raw_setmetatable, raw_getmetatable = setmetatable, getmetatable
local raw_setfenv, concat = setfenv, table.concat
local raw_resume, raw_insert = coroutine.resume, table.insert

local raw_unpack, tonumber = unpack, tonumber

-- No more values have a place on the stack.
local UNPACKED_MAX = 8000
local READ_ONLY = 'Attempt to modify a readonly table'
-- By the table that scripts see: the one that holds the values.
local inner_of = raw_setmetatable({}, { __mode = 'k' })

local function refuse()
  error(READ_ONLY, 2)
end

local function missing(_, name)
  error("Script attempted to access nonexistent global variable '" .. tostring(name) .. "'", 2)
end

local function protect(inner)
  local shown = {}
  inner_of[shown] = inner
  return raw_setmetatable(shown, { __index = inner, __newindex = refuse, __metatable = false })
end

local globals = {}
local globals_meta = { __index = globals, __newindex = refuse, __metatable = false }
local shown_globals = raw_setmetatable({}, globals_meta)
inner_of[shown_globals] = globals
local shown_meta = protect({ __index = missing })
-- No function from here on leads a script to the state's own globals.
raw_setfenv(1, shown_globals)

for _, name in raw_ipairs({
  'tostring', 'assert', 'tonumber', 'rawequal', 'collectgarbage', 'type', 'select', 'unpack', 'gcinfo',
  '_VERSION', 'error',
}) do
  globals[name] = outside[name]
end
globals._G = shown_globals

-- The number that an argument of unpack is.
local function bound(value, at)
  local number = tonumber(value)
  if not number then
    error("bad argument #" .. at .. " to 'unpack' (number expected, got " .. type(value) .. ')', 3)
  end
  return number
end

-- Lua's own counts the results in 32 bits: of some ranges it takes a huge number of them for none, and writes behind the end of
-- the stack.
function globals.unpack(...)
  local list, first, last = ...
  if type(list) ~= 'table' then
    local found = select('#', ...) == 0 and 'no value' or type(list)
    error("bad argument #1 to 'unpack' (table expected, got " .. found .. ')', 2)
  end
  local from = first == nil and 1 or bound(first, 2)
  local to = last == nil and #list or bound(last, 3)
  if to < from then
    return
  end
  if not (to - from < UNPACKED_MAX) then
    error('too many results to unpack', 2)
  end
  -- The arguments take places on the stack, too: no more than were given.
  return raw_unpack(...)
end

-- An error that a function of the server raised, as a value of Lua.
local function native(raised)
  if type(raised) == 'userdata' then
    return host.native(raised)
  end
  return raised
end

-- As Redis's pcall: of an error that is a table with an error's text, the text.
local function settle(ok, ...)
  if ok then
    return true, ...
  end
  local raised = native((...))
  if type(raised) == 'table' then
    local text = raised.err
    if type(text) == 'string' or type(text) == 'number' then
      raised = text
    end
  end
  return false, raised
end

function globals.pcall(...)
  return settle(raw_pcall(...))
end

function globals.xpcall(called, handler, ...)
  if type(handler) ~= 'function' then
    return raw_xpcall(called, handler, ...)
  end
  return raw_xpcall(called, function(raised)
    return handler(native(raised))
  end)
end

local function settle_resumed(ok, ...)
  if ok then
    return true, ...
  end
  return false, native((...))
end

local coroutines = {}
for name, value in raw_pairs(outside.coroutine) do
  coroutines[name] = value
end
function coroutines.resume(...)
  return settle_resumed(raw_resume(...))
end
globals.coroutine = protect(coroutines)

function globals.rawset(changed, ...)
  if inner_of[changed] then
    error(READ_ONLY, 0)
  end
  return raw_rawset(changed, ...)
end

function globals.rawget(read, ...)
  return raw_rawget(inner_of[read] or read, ...)
end

function globals.setmetatable(changed, ...)
  if inner_of[changed] then
    error(READ_ONLY, 0)
  end
  return raw_setmetatable(changed, ...)
end

function globals.getmetatable(read)
  if read == shown_globals then
    return shown_meta
  end
  if inner_of[read] then
    return nil
  end
  return raw_getmetatable(read)
end

-- A table that is shown is empty itself: what is iterated is a copy of the one that holds the values.
function globals.pairs(read)
  local inner = inner_of[read]
  if not inner then
    return raw_pairs(read)
  end
  local copy = {}
  for key, value in raw_pairs(inner) do
    copy[key] = value
  end
  return next, copy, nil
end
globals.ipairs = raw_ipairs

function globals.next(read, ...)
  return next(inner_of[read] or read, ...)
end

globals.loadstring = host.loadstring

function globals.load(reader, name)
  local parts = {}
  while true do
    local part = reader()
    if part == nil or part == '' then
      break
    end
    parts[#parts + 1] = part
  end
  return globals.loadstring(concat(parts), name or '=(load)')
end

local math_inner = {}
for name, value in raw_pairs(outside.math) do
  math_inner[name] = value
end
math_inner.random, math_inner.randomseed = host.random, host.randomseed
globals.math = protect(math_inner)

local table_inner = {}
for name, value in raw_pairs(outside.table) do
  table_inner[name] = value
end
function table_inner.insert(changed, ...)
  if inner_of[changed] then
    error(READ_ONLY, 0)
  end
  return raw_insert(changed, ...)
end
globals.table = protect(table_inner)

local string_meta = raw_getmetatable('')
globals.string = protect(outside.string)
string_meta.__metatable = protect({ __index = globals.string })

globals.cjson = protect(host.cjson)
globals.cmsgpack = protect(host.cmsgpack)
globals.struct = protect(host.struct)
globals.bit = protect(host.bit)

local redis = host.redis
globals.redis = protect(redis)
globals.__redis__err__handler = host.handler
raw_setmetatable(globals, { __index = missing })

-- While a library of functions is loaded, there is nothing but what it registers itself with.
local library_redis = { register_function = host.register }
for _, name in raw_ipairs({
  'log', 'LOG_DEBUG', 'LOG_VERBOSE', 'LOG_NOTICE', 'LOG_WARNING', 'REDIS_VERSION', 'REDIS_VERSION_NUM',
}) do
  library_redis[name] = redis[name]
end
raw_setmetatable(library_redis, { __index = missing })
local library = raw_setmetatable({ redis = protect(library_redis) }, { __index = missing })

local handler = host.handler
return {
  shown_globals = shown_globals,
  redis = redis,
  -- Calls a script: true and what it returns, or false and the error as a table.
  run = function(script, keys, arguments)
    globals.KEYS, globals.ARGV = keys, arguments
    return raw_xpcall(script, handler)
  end,
  -- The same of a function of a library.
  run_function = function(called, keys, arguments)
    return raw_xpcall(function()
      return called(keys, arguments)
    end, handler)
  end,
  load = function(script)
    globals_meta.__index = library
    inner_of[shown_globals] = library
    return raw_xpcall(script, handler)
  end,
  -- Called after `load`, however it ended.
  unload = function()
    globals_meta.__index = globals
    inner_of[shown_globals] = globals
  end,
}
