#pragma once
// A thread whose stack is as large as we say, not as large as the shell's `ulimit -s` says: kernels
// keep tiles of some hundred KiB on it, and with a small limit a thread of the standard library
// would run over its end.

#include <pthread.h>

#include <cstddef>
#include <functional>

namespace viaduct {

/// Address space, of which the system gives memory only for what is used.
inline constexpr size_t kThreadStackBytes = size_t{8} << 20;

class Thread {
 public:
  Thread() = default;
  /// Runs `main`, which must not throw, on a new thread; std::system_error if there is none to
  /// have.
  explicit Thread(std::function<void()> main);
  Thread(Thread&& other) noexcept;
  Thread& operator=(Thread&& other) noexcept;
  /// Waits for its end.
  ~Thread();

  bool joinable() const { return joinable_; }
  void join();

 private:
  pthread_t thread_{};
  bool joinable_ = false;
};

}  // namespace viaduct
