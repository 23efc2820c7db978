#include "comm/failed_rank.h"

#include <fmt/format.h>

#include <typeinfo>

#include "base/error.h"

namespace viaduct {
namespace {

/// Throws the same with `prefix` in front if `error` is exactly an `E`.
template <class E>
void rethrow_as(const std::exception& error, const std::string& prefix) {
  if (typeid(error) == typeid(E)) throw E(prefix + error.what());
}

}  // namespace

void rethrow_of_rank(int rank, const std::exception_ptr& exception) {
  const std::string prefix = fmt::format("rank {}: ", rank);
  try {
    std::rethrow_exception(exception);
  } catch (const ConfigError& error) {
    std::vector<std::string> problems = error.problems();
    for (std::string& problem : problems) problem.insert(0, prefix);
    throw ConfigError(std::move(problems));
  } catch (const std::exception& error) {
    rethrow_as<ShapeError>(error, prefix);
    rethrow_as<DeviceError>(error, prefix);
    rethrow_as<CommError>(error, prefix);
    rethrow_as<IoError>(error, prefix);
    rethrow_as<Error>(error, prefix);
    rethrow_as<std::runtime_error>(error, prefix);
    throw;
  }
}

}  // namespace viaduct
