#include <algorithm>

#include "base/error.h"
#include "ops/cpu/rows/rotary_kernels.h"
#include "ops/cpu/vector_choice.h"
#include "ops/reference/reference.h"

namespace viaduct::cpu {
namespace {

template <CpuIsa isa>
Choice choose(const RotaryArgs& args, const Traits&) {
  Choice choice = narrowing_choice("rotary", isa, args.x.dtype(), args.x.dtype() == DType::bf16);
  choice.cost = cost_of(args);
  return choice;
}

void launch(OpContext& context, const Choice& choice, const RotaryArgs& args, void*) {
  const auto* positions = args.positions.data<int32_t>();
  const int64_t tokens = args.x.dim(0), limit = args.cos.dim(0);
  for (int64_t t = 0; t < tokens; ++t) {
    VIADUCT_CHECK(ShapeError, positions[t] >= 0 && positions[t] < limit,
                  "rotary: positions[{}]: expected [0, {}), found {}", t, limit, positions[t]);
  }
  if (choice.variant == kReferenceKernel) return reference::rotary(args);
  const RotaryKernels& kernels = kernels_of(choice, portable::rotary_kernels, avx2::rotary_kernels,
                                            avx512::rotary_kernels, avx512_bf16::rotary_kernels);
  const RotaryRows rows{row_view(args.x), args.x.dim(1),          args.cos.dim(1),
                        positions,        args.cos.data<float>(), args.sin.data<float>(),
                        args.inverse,     args.interleaved};
  const int64_t elements = std::max<int64_t>(1, args.x.dim(1) * args.x.dim(2));
  const int64_t step = std::max<int64_t>(1, 16384 / elements);
  context.device.pool().run((tokens + step - 1) / step, [&](int64_t task, int) {
    kernels.rotate(rows, task * step, std::min(tokens, (task + 1) * step));
  });
}

}  // namespace

void add_rotary(OpTable& table, CpuIsa isa) {
  table.rotary = {of_isa(isa, choose<CpuIsa::portable>, choose<CpuIsa::avx2>,
                         choose<CpuIsa::avx512>, choose<CpuIsa::avx512_bf16>),
                  launch};
}

}  // namespace viaduct::cpu
