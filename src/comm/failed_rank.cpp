#include "comm/failed_rank.h"

#include <fmt/format.h>

#include <typeinfo>

#include "base/error.h"

namespace viaduct {
namespace {

/// "rank 3: …".
bool names_a_rank(std::string_view message) {
  constexpr std::string_view kRank = "rank ";
  if (!message.starts_with(kRank)) return false;
  const size_t end = message.find_first_not_of("0123456789", kRank.size());
  return end > kRank.size() && end != message.npos && message.substr(end).starts_with(": ");
}

/// Throws the same as `of_rank` if `error` is exactly an `E`.
template <class E>
void rethrow_as(const std::exception& error, int rank) {
  if (typeid(error) == typeid(E)) throw E(of_rank(rank, error.what()));
}

}  // namespace

std::string of_rank(int rank, std::string_view message) {
  return names_a_rank(message) ? std::string(message) : fmt::format("rank {}: {}", rank, message);
}

void rethrow_of_rank(int rank, const std::exception_ptr& exception) {
  try {
    std::rethrow_exception(exception);
  } catch (const ConfigError& error) {
    std::vector<std::string> problems = error.problems();
    for (std::string& problem : problems) problem = of_rank(rank, problem);
    throw ConfigError(std::move(problems));
  } catch (const std::exception& error) {
    rethrow_as<ShapeError>(error, rank);
    rethrow_as<DeviceError>(error, rank);
    rethrow_as<CommError>(error, rank);
    rethrow_as<IoError>(error, rank);
    rethrow_as<Error>(error, rank);
    rethrow_as<std::runtime_error>(error, rank);
    throw;
  }
}

}  // namespace viaduct
