#pragma once
// A thread with a stack of fixed size, independent of the shell's `ulimit -s`: kernels keep tiles
// of some hundred KiB on the stack, and with a small limit a standard-library thread would overflow
// it.

#include <pthread.h>

#include <cstddef>
#include <functional>

namespace viaduct {

/// Address space; the system commits memory only for pages in use.
inline constexpr size_t kThreadStackBytes = size_t{8} << 20;

class Thread {
 public:
  Thread() = default;
  /// Runs `main`, which must not throw, on a new thread; std::system_error if none can be started.
  explicit Thread(std::function<void()> main);
  Thread(Thread&& other) noexcept;
  Thread& operator=(Thread&& other) noexcept;
  /// Waits until the thread ends.
  ~Thread();

  bool joinable() const { return joinable_; }
  void join();

 private:
  pthread_t thread_{};
  bool joinable_ = false;
};

}  // namespace viaduct
