// Orders of rows by expert: where each expert's sorted choices begin, prefix sums of destinations
// by one block, and then every row's place, without atomics.

#include "ops/cuda/kernels/expert_order.h"

#include "ops/cuda/kernels/block_scan.cuh"

namespace viaduct::cuda {
namespace {

constexpr int kThreads = 256;

/// A thread for each choice, and one for the end: it writes the begins of all experts after its
/// predecessor's up to its own.
__global__ void __launch_bounds__(kThreads) find_begins_kernel(SortedChoices args) {
  for_elements<1>(1, args.choices + 1, kThreads, [&](int64_t, int64_t p, auto) {
    const int64_t before = p == 0 ? -1 : args.sorted[p - 1].row;
    const int64_t own = p == args.choices ? args.experts : args.sorted[p].row;
    for (int64_t e = before + 1; e <= own; ++e) args.begin[e] = static_cast<int32_t>(p);
  });
}

__device__ int64_t run_of(const ChoiceRuns& args, int64_t i) {
  const int64_t beyond = args.choice[i] - args.first_expert;
  return args.choice[i] < 0 || beyond < 0 ? -1 : beyond / args.together;
}

__global__ void __launch_bounds__(kThreads) choice_runs_kernel(ChoiceRuns args) {
  for_elements<1>(1, args.choices, kThreads, [&](int64_t, int64_t i, auto) {
    int64_t run = run_of(args, i);
    for (int64_t j = i - i % args.topk; args.once && j < i; ++j)
      if (run_of(args, j) == run) run = -1;
    args.run[i] = static_cast<int32_t>(run);
  });
}

/// The destination of an expert's copy: by rank, there by expert.
__device__ int64_t destination_of(const ExpertOrder& args, int64_t expert, int64_t copy) {
  const int64_t own = args.experts_per_rank;
  return (expert / own * args.copies + copy) * own + expert % own;
}
__device__ int64_t expert_of(const ExpertOrder& args, int64_t destination) {
  const int64_t own = args.experts_per_rank;
  return destination / own / args.copies * own + destination % own;
}

__global__ void __launch_bounds__(kThreads) destinations_kernel(ExpertOrder args) {
  const int32_t* const begin = args.choices.begin;
  const int64_t destinations = args.choices.experts * args.copies;
  const auto rows_of = [&](int64_t d) {
    const int64_t e = expert_of(args, d), chosen = begin[e + 1] - begin[e];
    const int64_t rows = chosen > args.rows_each ? chosen : args.rows_each;
    return (rows + args.rows_multiple - 1) / args.rows_multiple * args.rows_multiple;
  };
  scan_block<kThreads>(destinations, rows_of, [&](int64_t d, int64_t first) {
    args.offsets[d] = static_cast<int32_t>(first);
    if (d < destinations) {
      args.counts[d] = rows_of(d);
    } else if (args.all_rows != nullptr) {
      *args.all_rows = first + (args.adds_rows ? *args.all_rows : 0);
    }
  });
}

__global__ void __launch_bounds__(kThreads) clear_rows_kernel(ExpertOrder args) {
  for_elements<1>(1, args.rows, kThreads, [&](int64_t, int64_t i, auto) { args.token[i] = 0; });
}

__global__ void __launch_bounds__(kThreads) place_rows_kernel(ExpertOrder args) {
  const SortedChoices& choices = args.choices;
  for_elements<1>(choices.choices, args.copies, kThreads, [&](int64_t p, int64_t copy, auto) {
    const TokenOfRow own = choices.sorted[p];
    const int64_t choice = own.token;
    int32_t row = -1;
    if (own.row < choices.experts) {
      const int64_t among = p - choices.begin[own.row];
      row = args.offsets[destination_of(args, own.row, copy)] + static_cast<int32_t>(among);
      args.token[row] = static_cast<int32_t>(choice / args.topk);
    }
    args.position[choice * args.copies + copy] = row;
  });
}

__global__ void __launch_bounds__(kThreads) arrival_places_kernel(ArrivalOrder args) {
  const int64_t blocks = args.senders * args.experts;
  scan_block<kThreads>(
      blocks, [&](int64_t b) { return args.counts[b]; },
      [&](int64_t b, int64_t first) {
        if (b < blocks) args.received[b] = static_cast<int32_t>(first);
      });
  // By expert, and there by sender.
  const auto block_at = [&](int64_t i) {
    return i % args.senders * args.experts + i / args.senders;
  };
  scan_block<kThreads>(
      blocks, [&](int64_t i) { return args.counts[block_at(i)]; },
      [&](int64_t i, int64_t first) {
        if (i < blocks) args.placed[block_at(i)] = static_cast<int32_t>(first);
        if (i % args.senders == 0) args.offsets[i / args.senders] = static_cast<int32_t>(first);
      });
}

__global__ void __launch_bounds__(kThreads) arrival_rows_kernel(ArrivalOrder args) {
  const int64_t block = blockIdx.x;
  for (int64_t i = threadIdx.x; i < args.counts[block]; i += kThreads) {
    const auto received = static_cast<int32_t>(args.received[block] + i);
    const auto row = static_cast<int32_t>(args.placed[block] + i);
    args.from[row] = received;
    args.back[received] = row;
  }
}

}  // namespace

void find_begins(const SortedChoices& args, Stream stream) {
  launch("find_begins", find_begins_kernel, grid_for_elements(1, args.choices + 1, 1, kThreads),
         kThreads, stream, args);
}

void choice_runs(const ChoiceRuns& args, Stream stream) {
  launch("choice_runs", choice_runs_kernel, grid_for_elements(1, args.choices, 1, kThreads),
         kThreads, stream, args);
}

void expert_order(const ExpertOrder& args, Stream stream) {
  find_begins(args.choices, stream);
  launch("destinations", destinations_kernel, Grid(1), kThreads, stream, args);
  launch("clear_rows", clear_rows_kernel, grid_for_elements(1, args.rows, 1, kThreads), kThreads,
         stream, args);
  launch("place_rows", place_rows_kernel,
         grid_for_elements(args.choices.choices, args.copies, 1, kThreads), kThreads, stream, args);
}

void arrival_order(const ArrivalOrder& args, Stream stream) {
  launch("arrival_places", arrival_places_kernel, Grid(1), kThreads, stream, args);
  launch("arrival_rows", arrival_rows_kernel, Grid(args.senders * args.experts), kThreads, stream,
         args);
}

VIADUCT_KERNEL_FILE(expert_order)

}  // namespace viaduct::cuda
