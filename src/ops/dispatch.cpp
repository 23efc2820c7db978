#include "ops/dispatch.h"

#include "base/clock.h"
#include "ops/table.h"

namespace viaduct {

namespace detail {

const Traits& traits_of(const OpTable& table) {
  return table.traits;
}

int64_t begin_launch(OpContext& context) {
  Device& device = context.device;
  if (context.stream != kComputeStream)
    device.wait(context.stream, device.record_event(kComputeStream));
  return device.launched(context.stream);
}

void hold(OpContext& context, const Tensor& tensor) {
  context.device.hold(context.stream, tensor);
}

double seconds_now() {
  return steady_seconds();
}

}  // namespace detail

}  // namespace viaduct
