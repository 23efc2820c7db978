#pragma once
// Times the work that a device is given.

#include <memory>

namespace viaduct {

class Stopwatch {
 public:
  virtual ~Stopwatch() = default;
  /// Begins at the end of the work that compute has been given so far.
  virtual void start() = 0;
  /// Waits for the work that compute was given since `start`, and returns the seconds that it took.
  virtual double stop() = 0;
};

/// For devices that compute within the calls: by the host's clock.
std::unique_ptr<Stopwatch> make_host_stopwatch();

}  // namespace viaduct
