// The execution provider of a session.
#pragma once

#include "part.hpp"

namespace nnvk::provider {

// Status codes of onnxruntime. After kEpFail Python's sessions go over to the CPU, so it is not used.
enum Code : int32_t { kFail = 1, kInvalidArgument = 2 };

// Calls, and gives the status for what it throws: no exception goes into onnxruntime.
template <class Call>
Status* safely(const char* doing, Call call, int32_t code = kFail) noexcept {
  std::string reason;
  try {
    call();
    return nullptr;
  } catch (const Error& error) {
    reason = error.reason;
  } catch (const Known& known) {
    reason = "NNAPI's result code is " + std::to_string(known.code) + "; the reason is logged above";
  } catch (const std::exception& error) {
    reason = error.what();
  } catch (...) {
    reason = "something unknown was thrown";
  }
  return CreateStatus(api, code, (std::string("nnvk: ") + doing + ": " + reason).c_str());
}

// A provider for a session, which `logger` belongs to. It is freed by freeProvider.
Ep* newProvider(const std::string& name, const Options& options, const Logger* logger);
void freeProvider(Ep* provider) noexcept;

}  // namespace nnvk::provider
