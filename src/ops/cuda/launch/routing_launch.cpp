// Launches of routers: the choice of experts, its gradient, losses, and noise.

#include "ops/cuda/cuda_entry.h"
#include "ops/cuda/kernels/random.h"
#include "ops/cuda/kernels/routing.h"
#include "ops/cuda/launch/launch_args.h"

namespace viaduct::cuda {
namespace {

RouterRule rule_of(const RoutingRule& rule) {
  static_assert(static_cast<int>(ScoreFunction::sqrt_softplus) ==
                static_cast<int>(RouterScore::sqrt_softplus));
  static_assert(kMostChosenExperts <= kMostNearChoices);
  return {static_cast<RouterScore>(rule.score),
          rule.pre_softmax,
          rule.normalize,
          rule.choose_logits,
          rule.choose_probabilities,
          rule.topk,
          rule.groups,
          rule.group_topk,
          rule.best_of_group(),
          static_cast<float>(rule.scaling),
          static_cast<float>(rule.margin)};
}

RouterBalance balance_of(const Tensor& counts, const Tensor& documents, int64_t first_token,
                         int64_t tokens) {
  return {pointer_of<int64_t>(counts), pointer_of<int32_t>(documents),
          documents ? documents.dim(0) : 0, first_token, tokens};
}

void launch_route(OpContext& context, const Choice&, const RouteArgs& args, void*) {
  route({rule_of(args.rule), args.logits.data<float>(), pointer_of<float>(args.bias),
         args.probabilities.data<float>(), args.choice.data<int32_t>(), args.logits.dim(0),
         args.logits.dim(1)},
        stream_of(context));
}

void launch_route_backward(OpContext& context, const Choice&, const RouteBackwardArgs& args,
                           void*) {
  const RouterLossTerms& losses = args.losses;
  route_backward({rule_of(args.rule), args.d_probabilities.data<float>(), args.logits.data<float>(),
                  args.choice.data<int32_t>(), args.d_logits.data<float>(),
                  balance_of(losses.counts, losses.documents, losses.first_token, losses.tokens),
                  losses.balance, losses.z, pointer_of<double>(losses.loss_scale),
                  args.logits.dim(0), args.logits.dim(1), pointer_of<int64_t>(losses.token_index)},
                 stream_of(context));
}

void launch_router_loss(OpContext& context, const Choice&, const RouterLossArgs& args,
                        void* workspace) {
  const int64_t tokens = args.logits.dim(0);
  router_loss({rule_of(args.rule), args.logits.data<float>(),
               balance_of(args.counts, args.documents, args.first_token, args.tokens),
               static_cast<double*>(workspace), args.out.data<double>(), tokens, args.logits.dim(1),
               parts_of(tokens), pointer_of<int64_t>(args.token_index)},
              stream_of(context));
}

void launch_count(OpContext& context, const Choice&, const CountChoicesArgs& args, void*) {
  count_choices({args.choice.data<int32_t>(), args.counts.data<int64_t>(),
                 pointer_of<int32_t>(args.documents), args.documents ? args.documents.dim(0) : 0,
                 args.first_token, args.choice.elements(), args.choice.dim(1), args.counts.dim(-1),
                 args.counts.elements(), args.mode == WriteMode::accumulate,
                 pointer_of<int64_t>(args.token_index)},
                stream_of(context));
}

void launch_sinkhorn(OpContext& context, const Choice&, const SinkhornArgs& args, void* workspace) {
  const int64_t tokens = args.logits.dim(0), experts = args.logits.dim(1);
  auto* const factors = static_cast<double*>(workspace);
  double* const sums = factors + experts;
  sinkhorn({args.logits.data<float>(), args.bias.data<float>(), factors, sums,
            reinterpret_cast<float*>(sums + kSinkhornWarps * experts), tokens, experts,
            kSinkhornTolerance, kSinkhornEpsilon, kSinkhornRounds},
           stream_of(context));
}

void launch_count_margins(OpContext& context, const Choice&, const CountMarginsArgs& args, void*) {
  count_margins({args.logits.data<float>(), args.bias.data<float>(), args.histogram.data<int64_t>(),
                 args.logits.dim(0), args.logits.dim(1), args.histogram.dim(1), args.topk,
                 args.mode == WriteMode::accumulate, pointer_of<int64_t>(args.token_index)},
                stream_of(context));
}

void launch_quantile_bias(OpContext& context, const Choice&, const QuantileBiasArgs& args,
                          void* workspace) {
  quantile_bias(
      {args.histogram.data<int64_t>(), args.bias.data<float>(), static_cast<double*>(workspace),
       args.out.data<float>(), args.histogram.dim(0), args.histogram.dim(1), args.topk},
      stream_of(context));
}

void launch_jitter(OpContext& context, const Choice&, const JitterArgs& args, void*) {
  constexpr std::string_view op = "jitter";
  uniform_rows(
      {rows_of(op, args.x), rows_of(op, args.out), args.out.dim(0), args.out.dim(1),
       philox_key(args.key), args.token_index.data<int64_t>(), static_cast<float>(args.epsilon)},
      stream_of(context));
}

void launch_random_rows(OpContext& context, const Choice&, const RandomRowsArgs& args, void*) {
  uniform_rows({{},
                rows_of("random_rows", args.out),
                args.out.dim(0),
                args.out.dim(1),
                philox_key(args.key),
                args.token_index.data<int64_t>()},
               stream_of(context));
}

}  // namespace

void add_routing_launches(OpTable& table) {
  table.route.launch = launch_route;
  table.route_backward.launch = launch_route_backward;
  table.router_loss.launch = launch_router_loss;
  table.count_choices.launch = launch_count;
  table.sinkhorn_bias.launch = launch_sinkhorn;
  table.count_margins.launch = launch_count_margins;
  table.quantile_bias.launch = launch_quantile_bias;
  table.jitter.launch = launch_jitter;
  table.random_rows.launch = launch_random_rows;
}

}  // namespace viaduct::cuda
