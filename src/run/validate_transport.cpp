// Rules about what carries tensors between GPUs, and in which order sums are made on the way.

#include "comm/nccl_options.h"
#include "comm/stream_priority.h"
#include "run/validate_parallel.h"

namespace viaduct {

void validate_transport(const RunConfig& config, Problems& problems) {
  const DistConfig& dist = config.dist;
  if (!dist.on_cuda()) return;
  const bool has_nccl_options = has_nccl_settings(dist, problems);
  static_cast<void>(stream_priority(dist, problems));
  const bool through_hosts = dist.distributed_backend == TensorTransport::gloo;
  if (through_hosts && has_nccl_options && dist.ranks > 1) {
    problems.add(
        "dist.distributed_backend: gloo uses no NCCL, of which {} are settings; expected nccl, or "
        "none of them",
        kNcclSettings);
  }
  if (through_hosts && dist.ranks > 1 &&
      config.graph.cuda_graph_impl == GraphCapture::full_iteration) {
    problems.add(
        "dist.distributed_backend: gloo exchanges tensors through hosts, which the graph of a step "
        "(model.cuda_graph_impl = full_iteration) has not; expected nccl, or cuda_graph_impl = "
        "none");
  }
  const auto& stages = dist.pipeline_model_parallel_comm_backend;
  if (stages == TensorTransport::ucc) {
    problems.add(
        "model.pipeline_model_parallel_comm_backend: ucc is a library that this program does not "
        "use; expected nccl or null");
  } else if (stages == TensorTransport::nccl && through_hosts) {
    problems.add(
        "model.pipeline_model_parallel_comm_backend: nccl, but dist.distributed_backend = gloo "
        "carries tensors between all ranks; expected null, or distributed_backend = nccl");
  }
  if (config.determinism.deterministic_mode && dist.use_sharp) {
    problems.add(
        "dist.use_sharp: true, but model.deterministic_mode = true: switches make sums in an order "
        "of their own; expected use_sharp = false, or deterministic_mode = false");
  }
}

}  // namespace viaduct
