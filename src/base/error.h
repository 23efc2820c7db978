#pragma once
// The exceptions of the project and the check that throws them. Messages name the operation, what
// was expected and what was found (with rank and axis if there is one).

#include <fmt/core.h>

#include <stdexcept>
#include <string>
#include <vector>

namespace viaduct {

/// Base of all errors that viaduct throws on purpose. `what()` is one readable line.
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// The user's configuration or command line is wrong: exit status 2. Carries all problems at once.
class ConfigError : public Error {
 public:
  explicit ConfigError(const std::string& problem)
      : ConfigError(std::vector<std::string>{problem}) {}
  explicit ConfigError(std::vector<std::string> problems);
  const std::vector<std::string>& problems() const { return problems_; }

 private:
  std::vector<std::string> problems_;
};

/// A caller passed tensors whose shapes, dtypes or sizes do not fit an operation.
class ShapeError : public Error {
 public:
  using Error::Error;
};

/// A device, or an operation on it, is missing or failed.
class DeviceError : public Error {
 public:
  using Error::Error;
};

/// A collective or point-to-point operation failed or timed out.
class CommError : public Error {
 public:
  using Error::Error;
};

/// A file is missing, truncated, corrupted, hostile, or could not be written.
class IoError : public Error {
 public:
  using Error::Error;
};

/// Throws `E` with a formatted message.
template <class E, class... Args>
[[noreturn]] void fail(fmt::format_string<Args...> format, Args&&... args) {
  throw E(fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace viaduct

/// Throws `E` with a formatted message unless `condition` holds; always on. Arguments are evaluated
/// only on failure.
#define VIADUCT_CHECK(E, condition, ...)               \
  do {                                                 \
    if (!(condition)) ::viaduct::fail<E>(__VA_ARGS__); \
  } while (false)
