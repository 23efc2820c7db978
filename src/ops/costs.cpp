#include "ops/costs.h"

namespace viaduct {

void add_vector_flops(Cost& cost, DType dtype, double flops) {
  const FlopFormat format = dtype == DType::f64 ? FlopFormat::f64 : FlopFormat::f32;
  cost.flops[static_cast<size_t>(format)] += flops;
}

void move_flops(Cost& cost, FlopFormat to) {
  double& from = cost.flops[static_cast<size_t>(FlopFormat::f32)];
  const double moved = from;
  from = 0;
  cost.flops[static_cast<size_t>(to)] += moved;
}

}  // namespace viaduct
