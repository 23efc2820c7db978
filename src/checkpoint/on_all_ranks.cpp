#include "checkpoint/on_all_ranks.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <future>
#include <sstream>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/thread.h"

namespace viaduct {
namespace {

/// First character of a rank's error text: an IoError, a ConfigError or another error. The rest is
/// the message, or the problems with kNext between them.
constexpr char kIoError = 'i', kConfigError = 'c', kError = 'e', kNext = '\x1e';

std::string outcome_of(const std::exception_ptr& error) {
  if (!error) return "";
  try {
    std::rethrow_exception(error);
  } catch (const IoError& failure) {
    return kIoError + std::string(failure.what());
  } catch (const ConfigError& failure) {
    return fmt::format("{}{}", kConfigError,
                       fmt::join(failure.problems(), std::string_view(&kNext, 1)));
  } catch (const std::exception& failure) {
    return kError + std::string(failure.what());
  } catch (...) {
    return kError + std::string("unknown error");
  }
}

/// Runs `work` in parallel with exchanges of which ranks are still working.
std::exception_ptr run_beside_exchanges(Communicator& group, FunctionRef<void()> work,
                                        std::string_view what) {
  std::exception_ptr error;
  const auto run = [&] {
    try {
      work();
    } catch (...) {
      error = std::current_exception();
    }
  };
  if (group.size() == 1) {
    run();
    return error;
  }
  std::promise<void> done;
  std::future<void> over = done.get_future();
  // Joined at the end, even if the group has failed.
  Thread thread([&] {
    run();
    done.set_value();
  });
  constexpr std::chrono::milliseconds kShortest{1}, kLongest{200};
  constexpr double kQuietSeconds = 30;
  const double begin = steady_seconds();
  double speak = begin + kQuietSeconds;
  for (auto pause = kShortest;; pause = std::min(2 * pause, kLongest)) {
    const bool busy = over.wait_for(pause) != std::future_status::ready;
    const auto ranks = static_cast<int64_t>(group.host().sum(busy ? 1 : 0));
    if (ranks == 0) break;
    if (group.rank() > 0 || steady_seconds() < speak) continue;
    speak = steady_seconds() + kQuietSeconds;
    log_info("{}: {} of {} ranks {} still busy after {:.0f} s", what, ranks, group.size(),
             ranks == 1 ? "is" : "are", steady_seconds() - begin);
  }
  thread.join();
  return error;
}

}  // namespace

std::exception_ptr try_on_all(Communicator& group, FunctionRef<void()> work,
                              std::string_view what) {
  const std::exception_ptr error = run_beside_exchanges(group, work, what);
  const auto failed = group.host().first_text(outcome_of(error));
  if (!failed) return nullptr;
  const std::string rank = group.size() > 1 ? fmt::format("rank {}: ", failed->rank) : "";
  const std::string text = failed->text.substr(1), message = rank + text;
  if (failed->text[0] == kIoError) return std::make_exception_ptr(IoError(message));
  if (failed->text[0] == kError) return std::make_exception_ptr(Error(message));
  std::vector<std::string> problems;
  std::istringstream lines(text);
  for (std::string problem; std::getline(lines, problem, kNext);)
    problems.push_back(rank + problem);
  return std::make_exception_ptr(ConfigError(std::move(problems)));
}

void run_on_all(Communicator& group, FunctionRef<void()> work, std::string_view what) {
  if (const std::exception_ptr error = try_on_all(group, work, what)) std::rethrow_exception(error);
}

}  // namespace viaduct
