#include "ops/dispatch.h"

#include "ops/table.h"

namespace viaduct {

namespace detail {

const Traits& traits_of(const OpTable& table) {
  return table.traits;
}

double seconds_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace detail

}  // namespace viaduct
