#pragma once
// Second moments in scaled formats: nothing that is not zero may become zero. Adam divides by their
// root, and a first moment whose second one was lost would move its weight by 1 / epsilon.

#include "tensor/state_formats.h"

namespace viaduct {

/// After encode_state(values, host) in f16 or e4m3: codes of zero become the smallest positive ones
/// where the value was positive.
void lift_zeros(const Tensor& values, const StateValues& host);

}  // namespace viaduct
