// Launches of ops that order rows by expert, limit experts and balance them by a bias.

#include <cstddef>

#include "ops/cuda/choice_sort.h"
#include "ops/cuda/launch/launch_args.h"

namespace viaduct::cuda {
namespace {

/// Sorts the choices of the experts from `first_expert` on.
SortedChoices sort_choices(const int32_t* choice, int64_t first_expert, const ChoiceSort& sort,
                           void* workspace, Stream stream) {
  auto* const buffers = static_cast<TokenOfRow*>(workspace);
  auto* const counts = reinterpret_cast<int32_t*>(buffers + 2 * sort.choices);
  auto* const begin = counts + sort.count_bytes() / static_cast<int64_t>(sizeof(int32_t));
  SortedChoices sorted{nullptr, begin, sort.choices, sort.experts};
  if (sort.choices == 0) return sorted;
  constexpr int64_t kNone = -1;  // the id of no expert
  sorted.sorted = sort_tokens({choice,
                               sort.choices,
                               sort.experts,
                               first_expert,
                               kNone,
                               {buffers, buffers + sort.choices},
                               counts,
                               sort.passes()},
                              stream);
  return sorted;
}

/// Choices [T, k] of runs of experts, as `ChoiceRuns` has them.
struct Runs {
  const Tensor& choice;
  int64_t first_expert, together;
  bool once;
};

/// Sorts the choices by run; the numbers of runs are in the workspace after the sort's.
SortedChoices sort_runs(const Runs& runs, const ChoiceSort& sort, void* workspace, Stream stream) {
  const auto* const choice = runs.choice.data<int32_t>();
  if (runs.together == 1 || sort.choices == 0)
    return sort_choices(choice, runs.first_expert, sort, workspace, stream);
  auto* const run =
      reinterpret_cast<int32_t*>(static_cast<std::byte*>(workspace) + sort.workspace_bytes());
  choice_runs(
      {choice, run, sort.choices, runs.choice.dim(1), runs.first_expert, runs.together, runs.once},
      stream);
  return sort_choices(run, 0, sort, workspace, stream);
}

void launch_sort(OpContext& context, const Choice&, const SortByExpertArgs& args, void* workspace) {
  const Stream stream = stream_of(context);
  const ChoiceSort sort{args.choice.elements(), args.counts.dim(0) / args.copies};
  expert_order({sort_runs({args.choice, args.first_expert, args.experts_together, true}, sort,
                          workspace, stream),
                args.choice.dim(1), args.experts_per_rank, args.copies, args.rows_each,
                args.rows_multiple, args.token.data<int32_t>(), args.position.data<int32_t>(),
                args.counts.data<int64_t>(), args.offsets.data<int32_t>(), args.token.dim(0),
                pointer_of<int64_t>(args.all_rows), args.all_rows_mode == WriteMode::accumulate},
               stream);
}

void launch_arrival(OpContext& context, const Choice&, const ArrivalOrderArgs& args,
                    void* workspace) {
  auto* const received = static_cast<int32_t*>(workspace);
  arrival_order({args.counts.data<int64_t>(), args.from.data<int32_t>(), args.back.data<int32_t>(),
                 args.offsets.data<int32_t>(), received, received + args.counts.elements(),
                 args.counts.dim(0), args.counts.dim(1)},
                stream_of(context));
}

void launch_limit(OpContext& context, const Choice&, const LimitExpertsArgs& args,
                  void* workspace) {
  const Stream stream = stream_of(context);
  const ChoiceSort sort{args.choice.elements(), args.experts / args.experts_together};
  limit_experts({sort_runs({args.choice, 0, args.experts_together, false}, sort, workspace, stream),
                 args.choice.data<int32_t>(), args.probabilities.data<float>(), args.capacity,
                 args.policy == DropPolicy::probabilities},
                stream);
}

/// A vector in FP32 or FP64, or of any floating format.
Vector floats_of(std::string_view op, const Tensor& tensor) {
  if (!tensor) return {};
  return {tensor.raw(), format_of(op, tensor.dtype(), true)};
}

void launch_load_error(OpContext& context, const Choice&, const LoadErrorArgs& args, void*) {
  load_error({args.counts.data<int64_t>(), floats_of("load_error", args.out), args.counts.dim(0),
              args.mode == WriteMode::accumulate},
             stream_of(context));
}

void launch_move_bias(OpContext& context, const Choice&, const MoveLoadBiasArgs& args, void*) {
  constexpr std::string_view op = "move_load_bias";
  move_load_bias({floats_of(op, args.bias), floats_of(op, args.error), floats_of(op, args.weight),
                  args.scalars.data<double>(), static_cast<int>(StepScalar::skip),
                  args.bias.elements(), args.rate, args.set},
                 stream_of(context));
}

}  // namespace

void add_expert_order_launches(OpTable& table) {
  table.sort_by_expert.launch = launch_sort;
  table.arrival_order.launch = launch_arrival;
  table.limit_experts.launch = launch_limit;
  table.load_error.launch = launch_load_error;
  table.move_load_bias.launch = launch_move_bias;
}

}  // namespace viaduct::cuda
