#include "checkpoint/rank_exchange.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"

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

std::vector<std::string> exchange_texts(Communicator& group, const std::string& text) {
  const auto bytes = static_cast<int64_t>(text.size());
  const Tensor mine = host_tensor(DType::i64, {1}), sizes = host_tensor(DType::i64, {group.size()});
  *mine.data<int64_t>() = bytes;
  group.all_gather(mine, sizes).wait();
  const int64_t* size = sizes.data<int64_t>();
  const int64_t widest = std::max<int64_t>(1, *std::max_element(size, size + group.size()));
  const Tensor padded = host_tensor(DType::u8, {1, widest}),
               all = host_tensor(DType::u8, {group.size(), widest});
  std::memcpy(padded.raw(), text.data(), text.size());
  group.all_gather(padded, all).wait();
  std::vector<std::string> texts;
  for (int rank = 0; rank < group.size(); ++rank) {
    texts.emplace_back(static_cast<const char*>(all.select(rank).raw()),
                       static_cast<size_t>(size[rank]));
  }
  return texts;
}

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
