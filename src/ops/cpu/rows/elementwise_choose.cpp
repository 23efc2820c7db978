// Choice and launch of elementwise ops on the cpu.

#include <algorithm>
#include <cmath>

#include "ops/cpu/cpu_entry.h"
#include "ops/cpu/cpu_ops.h"
#include "ops/cpu/rows/copy_strided.h"
#include "ops/cpu/rows/elementwise_kernels.h"
#include "ops/cpu/rows/random_normal.h"
#include "ops/cpu/rows/runs.h"
#include "ops/cpu/vector_choice.h"
#include "ops/reference/reference.h"

namespace viaduct::cpu {
namespace {

// Choice::variant of `copy` besides kVectorKernel: any strides, integers, f64.
constexpr int kStridedKernel = kFamilyKernels;

bool has_dense_rows(const Tensor& tensor) {
  return tensor.rank() == 0 || tensor.dim(-1) <= 1 || tensor.stride(-1) == 1;
}

template <class Args>
Choice choose_vector(std::string_view op, const Args& args, const Traits& traits) {
  Choice choice = choose_by_dtype(op, args.out.dtype(), traits, "vector");
  choice.cost = cost_of(args);
  return choice;
}

Choice choose_add(const AddArgs& args, const Traits& traits) {
  return choose_vector("add", args, traits);
}

template <const ElementwiseKernels& (*kKernels)()>
void launch_add(OpContext& context, const Choice& choice, const AddArgs& args, void*) {
  if (choice.variant == kReferenceKernel) return reference::add(args);
  for_runs(context.device.pool(), {&args.out, &args.a, &args.b},
           [&](int64_t row, int64_t begin, int64_t n) {
             kKernels().add(row_address(args.a, row, begin), args.a.dtype(),
                            row_address(args.b, row, begin), args.b.dtype(),
                            row_address(args.out, row, begin), args.out.dtype(), n);
           });
}

Choice choose_multiply(const MultiplyArgs& args, const Traits& traits) {
  return choose_vector("multiply", args, traits);
}

template <const ElementwiseKernels& (*kKernels)()>
void launch_multiply(OpContext& context, const Choice& choice, const MultiplyArgs& args, void*) {
  if (choice.variant == kReferenceKernel) return reference::multiply(args);
  const int64_t heads = args.out.dim(1);
  for_row_runs(context.device.pool(), args.out.dim(0) * heads, args.out.dim(2),
               [&](int64_t row, int64_t begin, int64_t n) {
                 kKernels().multiply(row_address(args.a, row, begin), args.a.dtype(),
                                     row_address(args.b, row / heads, begin), args.b.dtype(),
                                     row_address(args.out, row, begin), args.out.dtype(), n);
               });
}

Choice choose_copy(const CopyArgs& args, const Traits&) {
  Choice choice;
  const auto narrow = [](const Tensor& t) {
    return is_floating(t.dtype()) && t.dtype() != DType::f64 && has_dense_rows(t);
  };
  const bool vector = narrow(args.from) && narrow(args.to);
  choice.kernel = vector ? "vector" : "strided";
  choice.variant = vector ? kVectorKernel : kStridedKernel;
  choice.cost = cost_of(args);
  return choice;
}

template <const ElementwiseKernels& (*kKernels)()>
void launch_copy(OpContext& context, const Choice& choice, const CopyArgs& args, void*) {
  if (choice.variant == kStridedKernel) return copy_strided(context.device.pool(), args);
  for_runs(context.device.pool(), {&args.to, &args.from},
           [&](int64_t row, int64_t begin, int64_t n) {
             kKernels().copy(row_address(args.from, row, begin), args.from.dtype(),
                             row_address(args.to, row, begin), args.to.dtype(),
                             args.mode == WriteMode::accumulate, n);
           });
}

Choice choose_sum_rows(const SumRowsArgs& args, const Traits& traits) {
  return choose_vector("sum_rows", args, traits);
}

template <const ElementwiseKernels& (*kKernels)()>
void launch_sum_rows(OpContext& context, const Choice& choice, const SumRowsArgs& args, void*) {
  const int64_t rows = args.x.dim(0);
  for_runs(context.device.pool(), {&args.out}, [&](int64_t, int64_t begin, int64_t n) {
    void* out = row_address(args.out, 0, begin);
    for (int64_t row = 0; row < rows; ++row) {
      const void* from = row_address(args.x, row, begin);
      if (choice.variant != kReferenceKernel) {
        kKernels().copy(from, args.x.dtype(), out, args.out.dtype(), row > 0, n);
        continue;
      }
      const auto* values = static_cast<const double*>(from);
      auto* sums = static_cast<double*>(out);
      for (int64_t i = 0; i < n; ++i) sums[i] = row > 0 ? sums[i] + values[i] : values[i];
    }
  });
}

Choice choose_scale(const ScaleArgs& args, const Traits& traits) {
  return choose_vector("scale", args, traits);
}

template <const ElementwiseKernels& (*kKernels)()>
void launch_scale(OpContext& context, const Choice& choice, const ScaleArgs& args, void*) {
  if (choice.variant == kReferenceKernel) return reference::scale(args);
  for_runs(context.device.pool(), {&args.out, &args.x}, [&](int64_t row, int64_t begin, int64_t n) {
    kKernels().scale(row_address(args.x, row, begin), args.x.dtype(),
                     static_cast<float>(args.factor), row_address(args.out, row, begin),
                     args.out.dtype(), n);
  });
}

Choice choose_fill(const FillArgs& args, const Traits& traits) {
  return choose_vector("fill", args, traits);
}

template <const ElementwiseKernels& (*kKernels)()>
void launch_fill(OpContext& context, const Choice& choice, const FillArgs& args, void*) {
  for_runs(context.device.pool(), {&args.out}, [&](int64_t row, int64_t begin, int64_t n) {
    void* out = row_address(args.out, row, begin);
    if (choice.variant == kReferenceKernel) {
      std::fill_n(static_cast<double*>(out), n, args.value);
    } else {
      kKernels().fill(static_cast<float>(args.value), out, args.out.dtype(), n);
    }
  });
}

Choice choose_dropout(const DropoutArgs& args, const Traits& traits) {
  Choice choice = choose_by_dtype("dropout", args.out.dtype(), traits, "philox");
  choice.cost = cost_of(args);
  return choice;
}

template <const ElementwiseKernels& (*kKernels)()>
void launch_dropout(OpContext& context, const Choice& choice, const DropoutArgs& args, void*) {
  if (choice.variant == kReferenceKernel) return reference::dropout(args);
  ThreadPool& pool = context.device.pool();
  const ElementwiseKernels& kernels = kKernels();
  if (args.probability == 0) {
    AddArgs sum{args.x, args.residual, args.out};
    if (args.residual) return launch_add<kKernels>(context, choice, sum, nullptr);
    return launch_copy<kKernels>(context, choice, {args.x, args.out}, nullptr);
  }
  // keep iff (w + ½) · 2^-23 ≥ p for the upper 23 bits w of a word; both sides are exact in FP64.
  const auto threshold = static_cast<int32_t>(std::ceil(args.probability * 0x1p23 - 0.5));
  const auto factor = static_cast<float>(1 / (1 - args.probability));
  const uint64_t key = philox_key(args.key);
  const int64_t* tokens = args.token_index.data<int64_t>();
  const bool has_residual = args.residual.defined();
  for_row_runs(pool, args.out.dim(0), args.out.dim(1), [&](int64_t row, int64_t begin, int64_t n) {
    const DropoutRun run{key, static_cast<uint64_t>(tokens[row]),
                         static_cast<uint64_t>(args.first_feature + begin), threshold, factor};
    kernels.dropout(run, row_address(args.x, row, begin), args.x.dtype(),
                    has_residual ? row_address(args.residual, row, begin) : nullptr,
                    has_residual ? args.residual.dtype() : args.x.dtype(),
                    row_address(args.out, row, begin), args.out.dtype(), n);
  });
}

Choice choose_random_normal(const RandomNormalArgs& args, const Traits&) {
  Choice choice;
  choice.kernel = "box_muller";
  choice.cost = cost_of(args);
  return choice;
}

template <const ElementwiseKernels& (*kKernels)()>
void launch_random_normal(OpContext& context, const Choice&, const RandomNormalArgs& args, void*) {
  fill_random_normal(context.device.pool(), kKernels(), args);
}

template <const ElementwiseKernels& (*kKernels)()>
void fill_table(OpTable& table) {
  table.add = {choose_add, launch_add<kKernels>};
  table.multiply = {choose_multiply, launch_multiply<kKernels>};
  table.copy = {choose_copy, launch_copy<kKernels>};
  table.sum_rows = {choose_sum_rows, launch_sum_rows<kKernels>};
  table.scale = {choose_scale, launch_scale<kKernels>};
  table.fill = {choose_fill, launch_fill<kKernels>};
  table.dropout = {choose_dropout, launch_dropout<kKernels>};
  table.random_normal = {choose_random_normal, launch_random_normal<kKernels>};
}

}  // namespace

void add_elementwise(OpTable& table, CpuIsa isa) {
  of_isa(isa, fill_table<portable::elementwise_kernels>, fill_table<avx2::elementwise_kernels>,
         fill_table<avx512::elementwise_kernels>,
         fill_table<avx512_bf16::elementwise_kernels>)(table);
}

}  // namespace viaduct::cpu
