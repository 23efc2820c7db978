#include "nn/no_rope_temperature.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"

namespace viaduct {

double NoRopeTemperature::at(int64_t position) const {
  if (!any()) return 1;
  return 1 + scale * std::log1p(static_cast<double>((position + 1) / length));
}

RotaryTable make_temperature_table(Device& device, const NoRopeTemperature& temperature,
                                   int64_t width, int64_t positions, DType dtype) {
  VIADUCT_CHECK(ShapeError, width >= 2 && width % 2 == 0,
                "attention temperature: expected heads of an even width, got {}", width);
  const int64_t pairs = width / 2;
  const DType stored = dtype == DType::f64 ? DType::f64 : DType::f32;
  const RotaryTable table{device.allocate(stored, {positions, pairs}, MemoryTag::other),
                          device.allocate(stored, {positions, pairs}, MemoryTag::other)};
  if (!device.executes()) return table;
  const Tensor factors = host_tensor(stored, {positions, pairs}),
               zeros = host_tensor(stored, {positions, pairs});
  dispatch_floating(stored, [&](auto zero) {
    using T = decltype(zero);
    std::fill_n(zeros.data<T>(), positions * pairs, zero);
    for (int64_t p = 0; p < positions; ++p) {
      const double factor = temperature.at(p);
      std::fill_n(factors.data<T>() + p * pairs, pairs, static_cast<T>(factor));
    }
  });
  device.copy_from_host(factors, table.cos);
  device.copy_from_host(zeros, table.sin);
  return table;
}

}  // namespace viaduct
