#include "device/stopwatch.h"

#include "base/clock.h"

namespace viaduct {
namespace {

class HostStopwatch final : public Stopwatch {
 public:
  void start() override { begin_ = steady_seconds(); }
  double stop() override { return steady_seconds() - begin_; }

 private:
  double begin_ = 0;
};

}  // namespace

std::unique_ptr<Stopwatch> make_host_stopwatch() {
  return std::make_unique<HostStopwatch>();
}

}  // namespace viaduct
