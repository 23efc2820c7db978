#include "tensor/state_rounding.h"

#include <bit>

#include "tensor/number_formats.h"

namespace viaduct {

void lift_zeros(const Tensor& values, const StateValues& host) {
  const auto* from = values.data<float>();
  for (int64_t i = 0; i < values.elements(); ++i) {
    if (!(from[i] > 0)) continue;
    if (host.values.dtype() == DType::e4m3) {
      auto& code = host.values.data<float8_e4m3>()[i];
      if (code.bits == 0) code.bits = 1;
    } else if (host.values.dtype() == DType::f16) {
      auto& code = host.values.data<float16>()[i];
      if (code == 0) code = std::bit_cast<float16>(uint16_t{1});
    }
  }
}

}  // namespace viaduct
