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

void check_same_floating(std::string_view op, std::initializer_list<const Tensor*> tensors) {
  const Tensor* first = nullptr;
  for (const Tensor* tensor : tensors) {
    if (!tensor->defined()) continue;
    VIADUCT_CHECK(ShapeError, is_floating(tensor->dtype()),
                  "{}: expected a floating tensor, got {}", op, describe(*tensor));
    if (first == nullptr) first = tensor;
    VIADUCT_CHECK(ShapeError, tensor->dtype() == first->dtype(),
                  "{}: expected one dtype, got {} and {}", op, describe(*first), describe(*tensor));
  }
}

}  // namespace viaduct
