// Choices for the ops of experts on a GPU: routing (a warp a token), the order of rows by expert
// (a stable sort, prefix sums and the places, without atomics), and what moves rows.

#include "ops/cuda/choice_sort.h"
#include "ops/cuda/cuda_entry.h"
#include "ops/cuda/kernels/routing.h"

namespace viaduct::cuda {
namespace {

// Of a logit: exponential, comparison, product.
constexpr double kFlopsOfLogit = 20;

void check_f32(std::string_view op, DType dtype, const Traits& traits) {
  VIADUCT_CHECK(DeviceError, dtype == DType::f32, "{}: {} has no kernel for {}; it has f32", op,
                traits.name, dtype_name(dtype));
}

/// A choice of an op over integers and few numbers, with the bytes of its operands.
Choice choose_bytes(std::string_view kernel, int64_t read, int64_t written, int launches = 1) {
  Choice choice;
  choice.kernel = kernel;
  choice.cost.bytes_read = read;
  choice.cost.bytes_written = written;
  choice.launches = launches;
  return choice;
}

/// Kernels of routers compute in FP32.
Choice choose_logits(std::string_view op, const Tensor& logits, const Traits& traits) {
  check_f32(op, logits.dtype(), traits);
  Choice choice = choose_bytes("warp_per_token", logits.bytes(), 0);
  add_vector_flops(choice.cost, logits.dtype(),
                   kFlopsOfLogit * static_cast<double>(logits.elements()));
  return choice;
}

/// What sorting choices by expert, or by runs of `together` experts, adds.
void add_sort(Choice& choice, const ChoiceSort& sort, int64_t together) {
  constexpr auto kBytes = static_cast<int64_t>(sizeof(TokenOfRow));
  choice.workspace_bytes = sort.workspace_bytes();
  choice.cost.bytes_read += 2 * sort.passes() * sort.choices * kBytes;
  choice.cost.bytes_written += sort.passes() * sort.choices * kBytes;
  if (together == 1 || sort.choices == 0) return;
  ++choice.launches;
  choice.workspace_bytes += sort.choices * static_cast<int64_t>(sizeof(int32_t));
}

Choice choose_route(const RouteArgs& args, const Traits& traits) {
  VIADUCT_CHECK(DeviceError, args.rule.groups <= kMostGroups,
                "route: {} has kernels for up to {} groups of experts, found {}", traits.name,
                kMostGroups, args.rule.groups);
  Choice choice = choose_logits("route", args.logits, traits);
  choice.cost.bytes_read += bytes_of(args.bias);
  choice.cost.bytes_written = args.probabilities.bytes() + args.choice.bytes();
  return choice;
}

Choice choose_route_backward(const RouteBackwardArgs& args, const Traits& traits) {
  Choice choice = choose_logits("route_backward", args.logits, traits);
  choice.cost.bytes_read += args.d_probabilities.bytes() + args.choice.bytes() +
                            bytes_of(args.losses.counts) + bytes_of(args.losses.token_index);
  choice.cost.bytes_written = args.d_logits.bytes();
  return choice;
}

/// Sums over the tokens: in parts, and a second launch adds them in order.
Choice choose_router_loss(const RouterLossArgs& args, const Traits& traits) {
  Choice choice = choose_logits("router_loss", args.logits, traits);
  choice.cost.bytes_read += bytes_of(args.token_index);
  choice.cost.bytes_written = args.out.bytes();
  choice.launches = 2;
  choice.workspace_bytes = 3 * parts_of(args.logits.dim(0)) * static_cast<int64_t>(sizeof(double));
  return choice;
}

/// Integers are added by atomics: their order has no effect.
Choice choose_count(const CountChoicesArgs& args, const Traits&) {
  return choose_bytes("count",
                      args.choice.bytes() + bytes_of(args.documents) + bytes_of(args.token_index),
                      args.counts.bytes(), args.mode == WriteMode::assign ? 2 : 1);
}

/// The choices are sorted by expert; prefix sums of destinations and the rows' places follow.
Choice choose_sort(const SortByExpertArgs& args, const Traits&) {
  const ChoiceSort sort{args.choice.elements(), args.counts.dim(0) / args.copies};
  Choice choice = choose_bytes("sorted_choices", 2 * args.choice.bytes(),
                               args.token.bytes() + args.position.bytes() + args.counts.bytes() +
                                   args.offsets.bytes() + bytes_of(args.all_rows),
                               sort.launches() + 3);
  add_sort(choice, sort, args.experts_together);
  return choice;
}

Choice choose_arrival(const ArrivalOrderArgs& args, const Traits&) {
  Choice choice = choose_bytes("prefix_sums", 2 * args.counts.bytes(),
                               args.from.bytes() + args.back.bytes() + args.offsets.bytes(), 2);
  choice.workspace_bytes = 2 * args.counts.elements() * static_cast<int64_t>(sizeof(int32_t));
  return choice;
}

/// Kernels over rows read these formats.
void check_rows(std::string_view op, DType dtype, const Traits& traits) {
  VIADUCT_CHECK(DeviceError, dtype == DType::f32 || dtype == DType::bf16 || dtype == DType::f16,
                "{}: {} has no kernel for {}; it has f32, bf16 and f16", op, traits.name,
                dtype_name(dtype));
}

Choice choose_combine(const CombineRowsArgs& args, const Traits& traits) {
  check_rows("combine_rows", args.rows.dtype(), traits);
  const int64_t read = args.position.elements() * args.out.dim(1);
  Choice choice = choose_bytes(
      "places",
      read * dtype_bytes(args.rows.dtype()) + args.position.bytes() + bytes_of(args.weight),
      args.out.bytes());
  add_vector_flops(choice.cost, args.rows.dtype(), 2.0 * static_cast<double>(read));
  return choice;
}

Choice choose_combine_backward(const CombineRowsBackwardArgs& args, const Traits& traits) {
  return choose_kernel("combine_rows_backward", "places", args.d_rows.dtype(), args, traits);
}

Choice choose_dots(const RowDotsArgs& args, const Traits& traits) {
  return choose_kernel("row_dots", "rows", args.x.dtype(), args, traits);
}

Choice choose_combine_weights(const CombineWeightsBackwardArgs& args, const Traits& traits) {
  return choose_kernel("combine_weights_backward", "choices", args.dots.dtype(), args, traits);
}

Choice choose_expert_bias(const ExpertBiasArgs& args, const Traits& traits) {
  return choose_kernel("expert_bias", "rows", args.x.dtype(), args, traits);
}

Choice choose_expert_bias_backward(const ExpertBiasBackwardArgs& args, const Traits& traits) {
  return choose_kernel("expert_bias_backward", "columns", args.dy.dtype(), args, traits);
}

Choice choose_load_error(const LoadErrorArgs& args, const Traits&) {
  return choose_bytes("vector", args.counts.bytes(), args.out.bytes());
}

Choice choose_move_bias(const MoveLoadBiasArgs& args, const Traits&) {
  return choose_bytes("vector", args.bias.bytes() + args.error.bytes(),
                      args.bias.bytes() + bytes_of(args.weight));
}

Choice choose_limit(const LimitExpertsArgs& args, const Traits& traits) {
  check_f32("limit_experts", args.probabilities.dtype(), traits);
  const int64_t bytes = args.choice.bytes() + args.probabilities.bytes();
  const ChoiceSort sort{args.choice.elements(), args.experts / args.experts_together};
  Choice choice = choose_bytes("block_per_expert", bytes, bytes, sort.launches() + 1);
  add_sort(choice, sort, args.experts_together);
  return choice;
}

/// One block runs all rounds: their number depends on values.
Choice choose_sinkhorn(const SinkhornArgs& args, const Traits& traits) {
  // Of a logit: an exponential, and two products and sums a round. Logits of a router that is not
  // far from balance take about this many rounds.
  constexpr double kFlopsOfExponential = 15, kFlopsOfRound = 4, kExpectedRounds = 10;
  check_f32("sinkhorn_bias", args.logits.dtype(), traits);
  const int64_t experts = args.logits.dim(1), logits = args.logits.elements();
  Choice choice = choose_bytes("one_block", args.logits.bytes(), args.bias.bytes());
  add_vector_flops(
      choice.cost, args.logits.dtype(),
      (kFlopsOfExponential + kExpectedRounds * kFlopsOfRound) * static_cast<double>(logits));
  choice.workspace_bytes = (1 + kSinkhornWarps) * experts * static_cast<int64_t>(sizeof(double)) +
                           logits * static_cast<int64_t>(sizeof(float));
  return choice;
}

/// Integers are added by atomics: their order has no effect.
Choice choose_count_margins(const CountMarginsArgs& args, const Traits& traits) {
  Choice choice = choose_logits("count_margins", args.logits, traits);
  choice.cost.bytes_read += args.bias.bytes() + bytes_of(args.token_index);
  choice.cost.bytes_written = args.histogram.bytes();
  choice.launches = args.mode == WriteMode::assign ? 2 : 1;
  return choice;
}

/// A warp finds an expert's quantile, a second launch takes their mean off.
Choice choose_quantile_bias(const QuantileBiasArgs& args, const Traits& traits) {
  check_f32("quantile_bias", args.bias.dtype(), traits);
  Choice choice = choose_bytes("warp_per_expert", args.histogram.bytes() + args.bias.bytes(),
                               args.out.bytes(), 2);
  choice.workspace_bytes = args.histogram.dim(0) * static_cast<int64_t>(sizeof(double));
  return choice;
}

Choice choose_jitter(const JitterArgs& args, const Traits&) {
  Choice choice =
      choose_bytes("philox", args.x.bytes() + args.token_index.bytes(), args.out.bytes());
  add_vector_flops(choice.cost, args.out.dtype(), 4.0 * static_cast<double>(args.out.elements()));
  return choice;
}

Choice choose_random_rows(const RandomRowsArgs& args, const Traits&) {
  return choose_bytes("philox", args.token_index.bytes(), args.out.bytes());
}

}  // namespace

void add_experts(OpTable& table) {
  add_entry(table.route, choose_route);
  add_entry(table.route_backward, choose_route_backward);
  add_entry(table.router_loss, choose_router_loss);
  add_entry(table.count_choices, choose_count);
  add_entry(table.sort_by_expert, choose_sort);
  add_entry(table.arrival_order, choose_arrival);
  add_entry(table.combine_rows, choose_combine);
  add_entry(table.combine_rows_backward, choose_combine_backward);
  add_entry(table.row_dots, choose_dots);
  add_entry(table.combine_weights_backward, choose_combine_weights);
  add_entry(table.expert_bias, choose_expert_bias);
  add_entry(table.expert_bias_backward, choose_expert_bias_backward);
  add_entry(table.load_error, choose_load_error);
  add_entry(table.move_load_bias, choose_move_bias);
  add_entry(table.limit_experts, choose_limit);
  add_entry(table.sinkhorn_bias, choose_sinkhorn);
  add_entry(table.count_margins, choose_count_margins);
  add_entry(table.quantile_bias, choose_quantile_bias);
  add_entry(table.jitter, choose_jitter);
  add_entry(table.random_rows, choose_random_rows);
}

}  // namespace viaduct::cuda
