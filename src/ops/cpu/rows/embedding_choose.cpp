// Choice and launch of embedding look-ups on the cpu. The gradient needs no atomics: tokens are
// sorted by row, and a task owns a slice of features of a share of the rows.

#include <algorithm>
#include <cstring>

#include "ops/cpu/cpu_entry.h"
#include "ops/cpu/cpu_ops.h"
#include "ops/cpu/rows/embedding_kernels.h"
#include "ops/cpu/vector_choice.h"
#include "ops/reference/reference.h"

namespace viaduct::cpu {
namespace {

constexpr int64_t kTokensPerTask = 32;
constexpr int64_t kSliceFeatures = 128;
constexpr int64_t kTasksWanted = 16;  // enough to balance threads; fixed, like all task boundaries
constexpr int64_t kZeroBytes = 1 << 20;
// Choice::variant of a look-up of codes, a byte each.
constexpr int kCopyKernel = kFamilyKernels;

const std::byte* row_of(const Tensor& tensor, int64_t row, int64_t column = 0) {
  return static_cast<const std::byte*>(tensor.raw()) +
         (row * tensor.stride(0) + column) * dtype_bytes(tensor.dtype());
}

template <const EmbeddingKernels& (*kKernels)()>
void launch_forward(OpContext& context, const Choice& choice, const EmbeddingForwardArgs& args,
                    void*) {
  if (choice.variant == kReferenceKernel) return reference::embedding_forward(args);
  const int32_t* ids = args.ids.data<int32_t>();
  const int64_t tokens = args.ids.dim(0), rows = args.weight.dim(0), width = args.weight.dim(1);
  const int64_t tasks = (tokens + kTokensPerTask - 1) / kTokensPerTask;
  context.device.pool().run(tasks, [&](int64_t task, int) {
    const int64_t end = std::min(tokens, (task + 1) * kTokensPerTask);
    for (int64_t t = task * kTokensPerTask; t < end; ++t) {
      const int64_t row = ids[t] - args.first_row;
      const bool here = row >= 0 && row < rows;
      auto* out = const_cast<std::byte*>(row_of(args.out, t));
      if (choice.variant == kCopyKernel) {
        here ? std::memcpy(out, row_of(args.weight, row), static_cast<size_t>(width))
             : std::memset(out, 0, static_cast<size_t>(width));
        continue;
      }
      kKernels().gather(here ? row_of(args.weight, row) : nullptr, args.weight.dtype(), width,
                        static_cast<float>(args.scale), args.mode == WriteMode::accumulate, out,
                        args.out.dtype());
    }
  });
}

/// Writes the tokens whose rows this rank holds to `sorted`, by row, then in order; returns their
/// number.
int64_t sort_tokens(const EmbeddingBackwardArgs& args, int32_t* sorted) {
  const int32_t* ids = args.ids.data<int32_t>();
  const int64_t tokens = args.ids.dim(0), rows = args.d_weight.dim(0);
  int64_t count = 0;
  for (int64_t t = 0; t < tokens; ++t) {
    const int64_t row = ids[t] - args.first_row;
    if (row < 0 || row >= rows || ids[t] == args.padding_id) continue;
    sorted[count++] = static_cast<int32_t>(t);
  }
  std::sort(sorted, sorted + count,
            [&](int32_t a, int32_t b) { return ids[a] != ids[b] ? ids[a] < ids[b] : a < b; });
  return count;
}

template <const EmbeddingKernels& (*kKernels)()>
void launch_backward(OpContext& context, const Choice& choice, const EmbeddingBackwardArgs& args,
                     void* workspace) {
  if (choice.variant == kReferenceKernel) return reference::embedding_backward(args);
  const int32_t* ids = args.ids.data<int32_t>();
  float* d_weight = args.d_weight.data<float>();
  const int64_t width = args.d_weight.dim(1);
  ThreadPool& pool = context.device.pool();
  if (args.mode == WriteMode::assign) {
    const int64_t bytes = args.d_weight.bytes();
    pool.run((bytes + kZeroBytes - 1) / kZeroBytes, [&](int64_t task, int) {
      const int64_t begin = task * kZeroBytes;
      std::memset(reinterpret_cast<std::byte*>(d_weight) + begin, 0,
                  static_cast<size_t>(std::min(kZeroBytes, bytes - begin)));
    });
  }
  const int64_t slices = (width + kSliceFeatures - 1) / kSliceFeatures;
  if (slices == 0) return;
  const int64_t parts = (kTasksWanted + slices - 1) / slices;  // rows of equal remainder
  auto* const sorted = static_cast<int32_t*>(workspace);
  const int64_t count = sort_tokens(args, sorted);
  pool.run(slices * parts, [&](int64_t task, int) {
    const int64_t begin = task % slices * kSliceFeatures, part = task / slices;
    const int64_t n = std::min(kSliceFeatures, width - begin);
    for (int64_t at = 0, end = 0; at < count; at = end) {
      const int32_t id = ids[sorted[at]];
      for (end = at + 1; end < count && ids[sorted[end]] == id;) ++end;
      const int64_t row = id - args.first_row;
      if (row % parts != part) continue;
      kKernels().scatter(row_of(args.d_out, 0, begin), args.d_out.dtype(), args.d_out.stride(0),
                         sorted + at, end - at, n, static_cast<float>(args.scale),
                         d_weight + row * width + begin);
    }
  });
}

Choice choose_forward(const EmbeddingForwardArgs& args, const Traits& traits) {
  const bool codes = dtype_bytes(args.weight.dtype()) == 1;
  Choice choice = choose_by_dtype("embedding_forward", codes ? DType::f32 : args.weight.dtype(),
                                  traits, codes ? "copy" : "rows");
  if (codes) choice.variant = kCopyKernel;
  choice.cost = cost_of(args);
  return choice;
}

Choice choose_backward(const EmbeddingBackwardArgs& args, const Traits& traits) {
  Choice choice = choose_by_dtype("embedding_backward", args.d_out.dtype(), traits, "slices");
  choice.cost = cost_of(args);
  if (choice.variant != kReferenceKernel) {
    choice.workspace_bytes = args.ids.dim(0) * static_cast<int64_t>(sizeof(int32_t));
  }
  return choice;
}

template <const EmbeddingKernels& (*kKernels)()>
void fill_table(OpTable& table) {
  table.embedding_forward = {choose_forward, launch_forward<kKernels>};
  table.embedding_backward = {choose_backward, launch_backward<kKernels>};
}

}  // namespace

void add_embedding(OpTable& table, CpuIsa isa) {
  of_isa(isa, fill_table<portable::embedding_kernels>, fill_table<avx2::embedding_kernels>,
         fill_table<avx512::embedding_kernels>)(table);
}

}  // namespace viaduct::cpu
