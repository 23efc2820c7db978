// Choices for the ops of experts on a GPU: routing (a warp a token), the order of rows by expert
// (counts, their prefix sums and the places, without atomics), what moves rows, and the products of
// all experts of a rank in one launch, whose tiles find their expert by the offsets.

#include "ops/cuda/cuda_entry.h"

namespace viaduct::cuda {
namespace {

// Of a logit: exponential, comparison, product.
constexpr double kFlopsOfLogit = 20;

/// A choice of an op over integers and few numbers, with the bytes of its operands.
Choice choose_bytes(std::string_view kernel, int64_t read, int64_t written, int launches = 1) {
  Choice choice;
  choice.kernel = kernel;
  choice.cost.bytes_read = read;
  choice.cost.bytes_written = written;
  choice.launches = launches;
  return choice;
}

Choice choose_logits(const Tensor& logits) {
  Choice choice = choose_bytes("warp_per_token", logits.bytes(), 0);
  add_vector_flops(choice.cost, logits.dtype(),
                   kFlopsOfLogit * static_cast<double>(logits.elements()));
  return choice;
}

Choice choose_route(const RouteArgs& args, const Traits&) {
  Choice choice = choose_logits(args.logits);
  choice.cost.bytes_read += bytes_of(args.bias);
  choice.cost.bytes_written = args.probabilities.bytes() + args.choice.bytes();
  return choice;
}

Choice choose_route_backward(const RouteBackwardArgs& args, const Traits&) {
  Choice choice = choose_logits(args.logits);
  choice.cost.bytes_read +=
      args.d_probabilities.bytes() + args.choice.bytes() + bytes_of(args.losses.counts);
  choice.cost.bytes_written = args.d_logits.bytes();
  return choice;
}

/// Sums over the tokens: in parts, and a second launch adds them in order.
Choice choose_router_loss(const RouterLossArgs& args, const Traits&) {
  Choice choice = choose_logits(args.logits);
  choice.cost.bytes_written = args.out.bytes();
  choice.launches = 2;
  choice.workspace_bytes = 3 * parts_of(args.logits.dim(0)) * static_cast<int64_t>(sizeof(double));
  return choice;
}

Choice choose_count(const CountChoicesArgs& args, const Traits&) {
  Choice choice = choose_bytes("count_parts", args.choice.bytes() + bytes_of(args.documents),
                               args.counts.bytes(), 2);
  choice.workspace_bytes = parts_of(args.choice.dim(0)) * args.counts.bytes();
  return choice;
}

Choice choose_sort(const SortByExpertArgs& args, const Traits&) {
  Choice choice = choose_bytes(
      "counting_sort", 2 * args.choice.bytes(),
      args.token.bytes() + args.position.bytes() + args.counts.bytes() + args.offsets.bytes(), 3);
  choice.workspace_bytes =
      parts_of(args.choice.dim(0)) * args.counts.dim(0) * static_cast<int64_t>(sizeof(int32_t));
  return choice;
}

Choice choose_arrival(const ArrivalOrderArgs& args, const Traits&) {
  Choice choice = choose_bytes("counting_sort", 2 * args.counts.bytes(),
                               args.from.bytes() + args.back.bytes() + args.offsets.bytes(), 2);
  choice.workspace_bytes = args.counts.elements() * static_cast<int64_t>(sizeof(int32_t));
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
  check_rows("combine_rows_backward", args.rows.dtype(), traits);
  const int64_t moved = args.position.elements() * args.d_out.dim(1);
  const int64_t bytes = moved * dtype_bytes(args.rows.dtype());
  Choice choice = choose_bytes(
      "places", bytes + args.d_out.bytes() + args.position.bytes() + args.weight.bytes(),
      bytes + args.d_weight.bytes());
  add_vector_flops(choice.cost, args.rows.dtype(), 3.0 * static_cast<double>(moved));
  return choice;
}

Choice choose_grouped(const GroupedGemmArgs& args, const Traits& traits) {
  const DType dtype = args.a.dtype();
  check_rows("grouped_gemm", dtype, traits);
  const bool gradient = args.form == GemmForm::weight_gradient;
  const Tensor& weights = gradient ? args.c : args.b;
  const int64_t rows = args.a.dim(0), experts = args.offsets.dim(0) - 1;
  const bool accumulate = args.mode == WriteMode::accumulate;
  Choice choice = choose_bytes(
      "grouped_tiles",
      args.a.bytes() + args.b.bytes() + args.offsets.bytes() + (accumulate ? args.c.bytes() : 0),
      args.c.bytes());
  const double products =
      static_cast<double>(rows) * static_cast<double>(weights.dim(0) / experts * weights.dim(1));
  add_vector_flops(choice.cost, dtype, 2.0 * products);
  use_matrix_units(choice.cost, dtype);
  return choice;
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

Choice choose_limit(const LimitExpertsArgs& args, const Traits&) {
  const int64_t bytes = args.choice.bytes() + args.probabilities.bytes();
  return choose_bytes("block_per_expert", bytes, bytes);
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
  add_entry(table.grouped_gemm, choose_grouped);
  add_entry(table.expert_bias, choose_expert_bias);
  add_entry(table.expert_bias_backward, choose_expert_bias_backward);
  add_entry(table.load_error, choose_load_error);
  add_entry(table.move_load_bias, choose_move_bias);
  add_entry(table.limit_experts, choose_limit);
  add_entry(table.jitter, choose_jitter);
  add_entry(table.random_rows, choose_random_rows);
}

}  // namespace viaduct::cuda
