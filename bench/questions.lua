-- Asks the addresses of a file, one after the other; says at the end what came of it, as JSON.
local paths, at = {}, 0

function init(args)
  for line in io.lines(args[1]) do paths[#paths + 1] = line end
end

function request()
  at = at + 1
  return wrk.format("GET", paths[(at - 1) % #paths + 1])
end

function done(summary, latency)
  local errors = summary.errors
  local failed = errors.connect + errors.read + errors.write + errors.status + errors.timeout
  io.write(string.format(
    '\n{"requests": %d, "seconds": %.6f, "bytes": %d, "failed": %d, "p50": %.4f, "p99": %.4f}\n',
    summary.requests, summary.duration / 1e6, summary.bytes, failed,
    latency:percentile(50) / 1e3, latency:percentile(99) / 1e3))
end
