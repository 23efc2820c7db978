#include "checkpoint/on_all_ranks.h"

#include <algorithm>

#include "base/error.h"
#include "comm/exchange_texts.h"

namespace viaduct {
namespace {

/// First character of what a rank says: no error, an IoError, another one. The rest is the message.
constexpr char kFine = 'f', kIoError = 'i', kError = 'e';

std::string outcome_of(const std::exception_ptr& error) {
  if (!error) return {kFine};
  try {
    std::rethrow_exception(error);
  } catch (const IoError& failure) {
    return kIoError + std::string(failure.what());
  } catch (const std::exception& failure) {
    return kError + std::string(failure.what());
  } catch (...) {
    return kError + std::string("unknown error");
  }
}

}  // namespace

std::exception_ptr try_on_all(Communicator& group, FunctionRef<void()> work) {
  std::exception_ptr error;
  try {
    work();
  } catch (...) {
    error = std::current_exception();
  }
  const std::vector<std::string> outcomes = exchange_texts(group, outcome_of(error));
  const auto failed = std::find_if(outcomes.begin(), outcomes.end(),
                                   [](const std::string& text) { return text[0] != kFine; });
  if (failed == outcomes.end()) return nullptr;
  const std::string rank =
      group.size() > 1 ? fmt::format("rank {}: ", failed - outcomes.begin()) : "";
  const std::string message = rank + failed->substr(1);
  return (*failed)[0] == kIoError ? std::make_exception_ptr(IoError(message))
                                  : std::make_exception_ptr(Error(message));
}

void run_on_all(Communicator& group, FunctionRef<void()> work) {
  if (const std::exception_ptr error = try_on_all(group, work)) std::rethrow_exception(error);
}

}  // namespace viaduct
