// Choice for the measurements of quantized operands: what is compared is made in the workspace by
// one launch, unless it was made earlier; then parts are summed, and joined.

#include "ops/cuda/cuda_entry.h"
#include "ops/cuda/grouped_operands.h"
#include "ops/cuda/kernels/nvfp4.h"
#include "ops/cuda/regions.h"

namespace viaduct::cuda {
namespace {

Choice choose(const QuantizationErrorArgs& args, const Traits& traits) {
  const OperandForm& form = measured_form(args);
  VIADUCT_CHECK(
      DeviceError,
      form.element == DType::e4m3 || form.element == DType::e5m2 || form.element == DType::e2m1x2,
      "quantization_error: {} reads row-major e4m3, e5m2 and e2m1x2 with scales, not {}",
      traits.name, describe(form));
  VIADUCT_CHECK(DeviceError, args.rounding.features.size() <= RandomBits::kMostRuns,
                "quantization_error: {} rounds columns of up to {} runs of features, found {}",
                traits.name, RandomBits::kMostRuns, args.rounding.features.size());
  const int64_t matrices = std::max<int64_t>(1, args.sums.dim(0));
  const auto plan = std::make_shared<MeasuredPlan>();
  Choice choice = choose_kernel("quantization_error", args);
  const Operand from = args.operand ? args.operand : Operand(args.matrix);
  plan->operand =
      grouped_operand(form, from, args.offsets.defined(), matrices, choice.workspace_bytes);
  const int64_t parts = matrices * error_parts(args.matrix.dim(0), matrices);
  plan->parts_at = take_region(choice.workspace_bytes,
                               parts * kErrorSums * static_cast<int64_t>(sizeof(double)));
  choice.launches = args.operand ? 2 : 3;
  choice.plan = plan;
  return choice;
}

}  // namespace

void add_quantization_error(OpTable& table) {
  add_entry(table.quantization_error, choose);
}

}  // namespace viaduct::cuda
