// Choice and launch of the largest magnitude of a matrix on the cpu: tasks take rows, and their
// maxima are compared in the end.

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "ops/cpu/cpu_entry.h"
#include "ops/cpu/cpu_ops.h"
#include "ops/cpu/gemm/magnitudes.h"
#include "ops/cpu/rows/runs.h"
#include "ops/cpu/vector_choice.h"
#include "tensor/hadamard.h"

namespace viaduct::cpu {
namespace {

/// A multiple of the rows that are rotated together.
int64_t rows_of_task(const LargestMagnitudeArgs& args) {
  const int64_t unit = args.rotated ? kRotated : 1;
  const int64_t units = kRunElements / std::max<int64_t>(1, unit * args.matrix.dim(1));
  return unit * std::max<int64_t>(1, units);
}

int64_t tasks_of(const LargestMagnitudeArgs& args) {
  return (args.matrix.dim(0) + rows_of_task(args) - 1) / rows_of_task(args);
}

Choice choose(const LargestMagnitudeArgs& args, const Traits&) {
  Choice choice;
  choice.kernel = "vector";
  choice.variant = kVectorKernel;
  add_flops(choice, args.matrix.dtype(), static_cast<double>(args.matrix.elements()));
  choice.cost.bytes_read = args.matrix.bytes();
  choice.cost.bytes_written = args.out.bytes();
  choice.workspace_bytes = tasks_of(args) * static_cast<int64_t>(sizeof(int32_t));
  return choice;
}

/// The largest magnitude of one matrix.
template <CpuIsa kIsa>
float largest_of(OpContext& context, const LargestMagnitudeArgs& args, void* workspace) {
  const int64_t tasks = tasks_of(args), rows = rows_of_task(args);
  auto* const largest = static_cast<int32_t*>(workspace);
  context.device.pool().run(tasks, [&](int64_t task, int) {
    const int64_t begin = task * rows, end = std::min(args.matrix.dim(0), begin + rows);
    const Tensor part = args.matrix.slice(0, begin, end - begin);
    largest[task] = args.rotated ? largest_rotated_bits(part, nvfp4_kernels(kIsa))
                                 : largest_bits(part, quantize_kernels(kIsa));
  });
  const auto bits = tasks > 0 ? *std::max_element(largest, largest + tasks) : 0;
  const auto amax = std::bit_cast<float>(bits);
  return std::isfinite(amax) ? amax : std::numeric_limits<float>::infinity();
}

template <CpuIsa kIsa>
void launch(OpContext& context, const Choice&, const LargestMagnitudeArgs& args, void* workspace) {
  const int64_t groups = args.out.dim(0), each = args.matrix.dim(0) / std::max<int64_t>(1, groups);
  const int32_t* offsets = args.offsets ? args.offsets.data<int32_t>() : nullptr;
  for (int64_t g = 0; g < groups; ++g) {
    const int64_t begin = offsets != nullptr ? offsets[g] : g * each;
    const int64_t end = offsets != nullptr ? offsets[g + 1] : begin + each;
    VIADUCT_CHECK(ShapeError, 0 <= begin && begin <= end && end <= args.matrix.dim(0),
                  "largest_magnitude: rows {} to {} of matrix {}, expected rows of {}", begin, end,
                  g, describe(args.matrix));
    LargestMagnitudeArgs one = args;
    one.matrix = args.matrix.slice(0, begin, end - begin);
    args.out.data<float>()[g] = largest_of<kIsa>(context, one, workspace);
  }
}

}  // namespace

void add_largest_magnitude(OpTable& table, CpuIsa isa) {
  table.largest_magnitude = {
      choose, of_isa(isa, launch<CpuIsa::portable>, launch<CpuIsa::avx2>, launch<CpuIsa::avx512>)};
}

}  // namespace viaduct::cpu
