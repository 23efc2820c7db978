#include "ops/dispatch.h"

#include "base/clock.h"
#include "ops/table.h"

namespace viaduct {

namespace detail {

const Traits& traits_of(const OpTable& table) {
  return table.traits;
}

double seconds_now() {
  return steady_seconds();
}

}  // namespace detail

}  // namespace viaduct
