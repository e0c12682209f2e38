#include "termination.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>

namespace nnvk::provider {

namespace {

// onnxruntime's interface sets and unsets the flag, but has no function that reads it. Where it lies is found out by
// setting that of options of our own. They have at least two numbers, a string and the flag, in all versions.
constexpr size_t kLookedAt = 2 * sizeof(int32_t) + sizeof(std::string) + sizeof(bool);
using Bytes = std::array<uint8_t, kLookedAt>;

Bytes bytesOf(const RunOptions* options) {
  Bytes bytes;
  memcpy(bytes.data(), options, bytes.size());
  return bytes;
}

std::optional<size_t> findFlag() {
  RunOptions* options = nullptr;
  check(CreateRunOptions(api, &options));
  std::optional<size_t> found;
  const Bytes before = bytesOf(options);
  check(RunOptionsSetTerminate(api, options));
  const Bytes set = bytesOf(options);
  check(RunOptionsUnsetTerminate(api, options));
  const Bytes after = bytesOf(options);
  ReleaseRunOptions(api, options);
  const auto [was, is] = std::mismatch(before.begin(), before.end(), set.begin());
  if (was != before.end() && *was == 0 && *is == 1 && before == after && std::equal(was + 1, before.end(), is + 1)) {
    found = static_cast<size_t>(was - before.begin());
  }
  return found;
}

thread_local std::vector<std::pair<const Ep*, const RunOptions*>> runs;  // one in the other, of several sessions

}  // namespace

Termination::Termination(const RunOptions* options) {
  static const std::optional<size_t> place = findFlag();
  if (options != nullptr && place) {
    flag_ = reinterpret_cast<const uint8_t*>(options) + *place;
  }
}

void Termination::look() {
  if (flag_ != nullptr && __atomic_load_n(flag_, __ATOMIC_RELAXED) != 0) {
    throw Terminated{};
  }
}

void beginRun(const Ep* provider, const RunOptions* options) { runs.emplace_back(provider, options); }

void endRun(const Ep* provider) noexcept {
  const auto is_own = [&](const auto& run) { return run.first == provider; };
  const auto last = std::find_if(runs.rbegin(), runs.rend(), is_own);
  if (last != runs.rend()) {
    runs.erase(std::prev(last.base()));
  }
}

const RunOptions* currentRun(const Ep* provider) noexcept {
  const auto is_own = [&](const auto& run) { return run.first == provider; };
  const auto last = std::find_if(runs.rbegin(), runs.rend(), is_own);
  return last == runs.rend() ? nullptr : last->second;
}

}  // namespace nnvk::provider
