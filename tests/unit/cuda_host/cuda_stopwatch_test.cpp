// The stopwatch of the cuda device: it begins behind the work that compute has, and ends behind the
// work that it waits for.

#include "device/cuda/cuda_stopwatch.h"

#include <gtest/gtest.h>

#include "base/clock.h"
#include "base/error.h"
#include "cuda_host/streams.h"

namespace viaduct {
namespace {

/// Seconds of the host's clock at the beginning and the end of a piece of work.
struct Span {
  double begin = 0, end = 0;
};

/// Gives compute work that takes two milliseconds of the host's clock.
void give(CudaDevice& device, Span& span) {
  device.launched(kComputeStream);
  cuda_host::enqueue(device.handle(kComputeStream), "busy", [&span] {
    span.begin = steady_seconds();
    do {
      span.end = steady_seconds();
    } while (span.end < span.begin + 2e-3);
  });
}

TEST(EventStopwatch, TimesTheWorkBetweenStartAndStop) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    cuda_host::reset_runtime({.seed = seed});
    const auto device = make_cuda_device();
    const auto stopwatch = make_event_stopwatch(*device);
    Span before, timed, after;
    give(*device, before);
    stopwatch->start();
    give(*device, timed);
    const double seconds = stopwatch->stop();
    ASSERT_GT(timed.end, 0) << "stop() waits for the work";
    constexpr double kFloat = 1e-6;  // the runtime gives milliseconds as a float
    EXPECT_GE(seconds, timed.end - timed.begin - kFloat);
    EXPECT_LE(seconds, steady_seconds() - before.end + kFloat);
    give(*device, after);
    stopwatch->start();
    EXPECT_LE(stopwatch->stop(), steady_seconds() - after.end + kFloat) << "used again";
  }
}

TEST(EventStopwatch, NeedsACudaDevice) {
  const auto device = make_cpu_device(1);
  EXPECT_THROW(make_event_stopwatch(*device), DeviceError);
}

}  // namespace
}  // namespace viaduct
