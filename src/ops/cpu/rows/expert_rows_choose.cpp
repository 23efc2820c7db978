// Choice and launch of the ops over rows of experts on the cpu. Orders are counted and then written
// by one thread (a few integers a token); the rows themselves are moved by all.

#include "ops/cpu/vector_choice.h"
#include "ops/expert_rows.h"

#include <algorithm>

#include "ops/cpu/cpu_entry.h"
#include "ops/cpu/cpu_ops.h"
#include "ops/cpu/rows/expert_rows_kernels.h"
#include "ops/reference/reference.h"

namespace viaduct::cpu {
namespace {

constexpr int64_t kTokensPerTask = 16;

std::byte* row_of(const Tensor& tensor, int64_t row) {
  return static_cast<std::byte*>(tensor.raw()) +
         row * tensor.stride(0) * dtype_bytes(tensor.dtype());
}

/// Calls token(t) for all tokens on the pool.
template <class Token>
void for_tokens(OpContext& context, int64_t tokens, const Token& token) {
  context.device.pool().run((tokens + kTokensPerTask - 1) / kTokensPerTask, [&](int64_t task, int) {
    const int64_t end = std::min(tokens, (task + 1) * kTokensPerTask);
    for (int64_t t = task * kTokensPerTask; t < end; ++t) token(t);
  });
}

void launch_sort(OpContext&, const Choice&, const SortByExpertArgs& args, void* workspace) {
  const int64_t choices = args.choice.elements(), k = args.choice.dim(1), copies = args.copies;
  const int64_t own = args.experts_per_rank, destinations = args.counts.dim(0);
  const auto* choice = args.choice.data<int32_t>();
  auto* counts = args.counts.data<int64_t>();
  auto* offsets = args.offsets.data<int32_t>();
  const int64_t experts = destinations / copies;
  // Of a choice, or the run of experts that it is in, counted from the first; −1 without a row.
  const int64_t together = args.experts_together;
  const auto run_of = [&](int64_t i) {
    const int64_t expert = choice[i] - args.first_expert;
    return choice[i] < 0 || expert < 0 || expert >= experts * together ? -1 : expert / together;
  };
  const auto expert_of = [&](int64_t i) {
    const int64_t run = run_of(i);
    for (int64_t before = i / k * k; together > 1 && before < i; ++before)
      if (run_of(before) == run) return int64_t{-1};
    return run;
  };
  const auto destination = [&](int64_t expert, int64_t copy) {
    return (expert / own * copies + copy) * own + expert % own;
  };
  std::fill_n(counts, destinations, int64_t{0});
  for (int64_t i = 0; i < choices; ++i) {
    const int64_t expert = expert_of(i);
    for (int64_t copy = 0; copy < copies && expert >= 0; ++copy)
      ++counts[destination(expert, copy)];
  }
  auto* next = static_cast<int32_t*>(workspace);
  offsets[0] = 0;
  for (int64_t d = 0; d < destinations; ++d) {
    next[d] = offsets[d];
    counts[d] = std::max(counts[d], args.rows_each);
    counts[d] = (counts[d] + args.rows_multiple - 1) / args.rows_multiple * args.rows_multiple;
    offsets[d + 1] = offsets[d] + static_cast<int32_t>(counts[d]);
  }
  if (args.all_rows) {
    int64_t& all = *args.all_rows.data<int64_t>();
    all = offsets[destinations] + (args.all_rows_mode == WriteMode::assign ? 0 : all);
  }
  auto* token = args.token.data<int32_t>();
  for (int64_t i = 0; i < choices; ++i) {
    const int64_t expert = expert_of(i);
    for (int64_t copy = 0; copy < copies; ++copy) {
      const int32_t row = expert < 0 ? -1 : next[destination(expert, copy)]++;
      args.position.data<int32_t>()[i * copies + copy] = row;
      if (row >= 0) token[row] = static_cast<int32_t>(i / k);
    }
  }
  for (int64_t d = 0; d < destinations; ++d) std::fill(token + next[d], token + offsets[d + 1], 0);
  std::fill(token + offsets[destinations], token + args.token.dim(0), 0);
}

void launch_arrival(OpContext&, const Choice&, const ArrivalOrderArgs& args, void* workspace) {
  const int64_t senders = args.counts.dim(0), experts = args.counts.dim(1);
  const auto* counts = args.counts.data<int64_t>();
  auto* next = static_cast<int32_t*>(workspace);
  int32_t* const offsets = args.offsets.data<int32_t>();
  offsets[0] = 0;
  for (int64_t e = 0; e < experts; ++e) {
    int64_t rows = 0;
    for (int64_t s = 0; s < senders; ++s) rows += counts[s * experts + e];
    next[e] = offsets[e];
    offsets[e + 1] = offsets[e] + static_cast<int32_t>(rows);
  }
  int32_t received = 0;
  for (int64_t block = 0; block < senders * experts; ++block) {
    for (int64_t i = 0; i < counts[block]; ++i, ++received) {
      const int32_t row = next[block % experts]++;
      args.from.data<int32_t>()[row] = received;
      args.back.data<int32_t>()[received] = row;
    }
  }
}

template <const ExpertRowsKernels& (*kKernels)()>
void launch_combine(OpContext& context, const Choice& choice, const CombineRowsArgs& args, void*) {
  if (choice.variant == kReferenceKernel) return reference::combine_rows(args);
  const int64_t places = args.position.dim(1), k = places / args.copies;
  for_tokens(context, args.out.dim(0), [&](int64_t t) {
    kKernels().combine(args.rows.raw(), args.rows.dtype(), args.rows.stride(0),
                       args.position.data<int32_t>() + t * places, places,
                       args.weight ? args.weight.data<float>() + t * k : nullptr, args.copies,
                       args.out.dim(1), row_of(args.out, t), args.out.dtype());
  });
}

template <const ExpertRowsKernels& (*kKernels)()>
void launch_combine_backward(OpContext& context, const Choice& choice,
                             const CombineRowsBackwardArgs& args, void*) {
  if (choice.variant == kReferenceKernel) return reference::combine_rows_backward(args);
  const int64_t places = args.position.dim(1), k = places / args.copies;
  for_tokens(context, args.d_out.dim(0), [&](int64_t t) {
    for (int64_t j = 0; j < k; ++j) {
      const float weight = args.weight.data<float>()[t * k + j];
      float d_weight = 0;
      for (int64_t copy = 0; copy < args.copies; ++copy) {
        const int64_t row = args.position.data<int32_t>()[t * places + j * args.copies + copy];
        if (row < 0) continue;
        d_weight += kKernels().spread(
            row_of(args.d_out, t), args.d_out.dtype(), args.rows ? row_of(args.rows, row) : nullptr,
            weight, args.d_rows.dim(1), row_of(args.d_rows, row), args.d_rows.dtype());
      }
      if (args.d_weight) args.d_weight.data<float>()[t * k + j] = d_weight;
    }
  });
}

template <const ExpertRowsKernels& (*kKernels)()>
void launch_dots(OpContext& context, const Choice& choice, const RowDotsArgs& args, void*) {
  if (choice.variant == kReferenceKernel) return reference::row_dots(args);
  const int32_t* offsets = args.offsets ? args.offsets.data<int32_t>() : nullptr;
  const int64_t experts = args.y.dim(0);
  for_tokens(context, args.x.dim(0), [&](int64_t row) {
    int64_t of = row;
    if (offsets != nullptr) {
      of = std::upper_bound(offsets, offsets + experts + 1, row) - offsets - 1;
      if (of < 0 || of == experts) return;  // of no expert
    }
    const float sum = kKernels().dot(row_of(args.x, row), args.x.dtype(), row_of(args.y, of),
                                     args.y.dtype(), args.x.dim(1));
    float& out = args.out.data<float>()[row];
    out = sum + (args.mode == WriteMode::assign ? 0.0f : out);
  });
}

void launch_combine_weights(OpContext& context, const Choice& choice,
                            const CombineWeightsBackwardArgs& args, void*) {
  if (choice.variant == kReferenceKernel) return reference::combine_weights_backward(args);
  const int64_t k = args.weight.dim(1);
  for_tokens(context, args.weight.dim(0), [&](int64_t t) {
    for (int64_t i = t * k; i < (t + 1) * k; ++i) {
      const int32_t* position = args.position.data<int32_t>() + i * args.copies;
      const float weight = args.weight.data<float>()[i];
      float sum = 0;
      for (int64_t copy = 0; copy < args.copies; ++copy)
        if (position[copy] >= 0) sum += args.dots.data<float>()[position[copy]];
      args.d_weight.data<float>()[i] = weight == 0 ? 0 : sum / weight;
    }
  });
}

Choice choose_sort(const SortByExpertArgs& args, const Traits&) {
  Choice choice;
  choice.kernel = "counting_sort";
  choice.cost.bytes_read = 2 * args.choice.bytes();
  choice.cost.bytes_written = args.token.bytes() + args.position.bytes() + args.counts.bytes() +
                              args.offsets.bytes() + bytes_of(args.all_rows);
  choice.workspace_bytes = args.counts.dim(0) * static_cast<int64_t>(sizeof(int32_t));
  return choice;
}

Choice choose_arrival(const ArrivalOrderArgs& args, const Traits&) {
  Choice choice;
  choice.kernel = "counting_sort";
  choice.cost.bytes_read = 2 * args.counts.bytes();
  choice.cost.bytes_written = args.from.bytes() + args.back.bytes() + args.offsets.bytes();
  choice.workspace_bytes = args.counts.dim(1) * static_cast<int64_t>(sizeof(int32_t));
  return choice;
}

Choice choose_combine(const CombineRowsArgs& args, const Traits& traits) {
  Choice choice = choose_by_dtype("combine_rows", args.rows.dtype(), traits, "tokens");
  const int64_t read = args.position.elements() * args.out.dim(1);
  add_flops(choice, args.rows.dtype(), 2.0 * static_cast<double>(read));
  choice.cost.bytes_read =
      read * dtype_bytes(args.rows.dtype()) + args.position.bytes() + bytes_of(args.weight);
  choice.cost.bytes_written = args.out.bytes();
  return choice;
}

Choice choose_combine_backward(const CombineRowsBackwardArgs& args, const Traits& traits) {
  Choice choice = choose_by_dtype("combine_rows_backward", args.d_rows.dtype(), traits, "tokens");
  choice.cost = cost_of(args);
  return choice;
}

Choice choose_dots(const RowDotsArgs& args, const Traits& traits) {
  Choice choice = choose_by_dtype("row_dots", args.x.dtype(), traits, "rows");
  choice.cost = cost_of(args);
  return choice;
}

Choice choose_combine_weights(const CombineWeightsBackwardArgs& args, const Traits& traits) {
  Choice choice = choose_by_dtype("combine_weights_backward", args.dots.dtype(), traits, "tokens");
  choice.cost = cost_of(args);
  return choice;
}

template <const ExpertRowsKernels& (*kKernels)()>
void fill_table(OpTable& table) {
  table.sort_by_expert = {choose_sort, launch_sort};
  table.arrival_order = {choose_arrival, launch_arrival};
  table.combine_rows = {choose_combine, launch_combine<kKernels>};
  table.combine_rows_backward = {choose_combine_backward, launch_combine_backward<kKernels>};
  table.row_dots = {choose_dots, launch_dots<kKernels>};
  table.combine_weights_backward = {choose_combine_weights, launch_combine_weights};
}

}  // namespace

void add_expert_rows(OpTable& table, CpuIsa isa) {
  of_isa(isa, fill_table<portable::expert_rows_kernels>, fill_table<avx2::expert_rows_kernels>,
         fill_table<avx512::expert_rows_kernels>)(table);
}

}  // namespace viaduct::cpu
