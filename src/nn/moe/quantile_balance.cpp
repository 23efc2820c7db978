#include "nn/moe/quantile_balance.h"

#include "nn/moe/router_log.h"
#include "ops/load_quantile.h"

namespace viaduct {

LoadBiases quantile_biases(OpContext& context, const ParallelGroups& groups, RouterLog* log) {
  LoadBiases biases;
  if (log == nullptr || !log->margins()) return biases;
  // Tensor ranks have other tokens, too: routers need sequence parallelism.
  groups.tp().all_reduce(log->margins(), ReduceOp::sum).wait();
  groups.dp_cp().all_reduce(log->margins(), ReduceOp::sum).wait();
  for (const RouterLog::Layer& layer : log->layers()) {
    if (layer.load_bias == nullptr) continue;  // no backward has run here
    const Tensor bias =
        context.allocate(layer.bias.dtype(), layer.bias.shape(), MemoryTag::workspace);
    quantile_bias(context, {layer.margins, layer.bias, bias, log->topk()});
    biases.emplace_back(layer.load_bias, bias);
  }
  return biases;
}

}  // namespace viaduct
