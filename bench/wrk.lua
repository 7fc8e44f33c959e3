-- Sends one fixed request, given by the environment, and says in one line of JSON what came back.
local headers = {}
for line in (os.getenv("BENCH_HEADERS") or ""):gmatch("[^\n]+") do
  local name, value = line:match("^([^:]+): (.*)$")
  headers[name] = value
end
local file = io.open(os.getenv("BENCH_BODY"), "rb")
local request_text = wrk.format("POST", os.getenv("BENCH_PATH"), headers, file:read("*a"))
file:close()

request = function()
  return request_text
end

done = function(summary, latency, _)
  local errors = summary.errors
  io.write(string.format(
    '{"requests": %d, "microseconds": %d, "p50_us": %d, "p99_us": %d, "failed": %d}\n',
    summary.requests, summary.duration, latency:percentile(50), latency:percentile(99),
    errors.connect + errors.read + errors.write + errors.status + errors.timeout))
end
