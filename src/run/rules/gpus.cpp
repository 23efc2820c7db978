// Libraries of GPUs: what carries tensors between them, and in which order sums are made on the
// way.

#include "comm/nccl_options.h"
#include "comm/stream_priority.h"
#include "run/rules/rules.h"

namespace viaduct {
namespace {

/// Why no tensors travel over NCCL.
std::string without_nccl(const RunConfig& c, const ConfigOutcome& = {}) {
  const std::string other = without_gpu(c, "does not use NCCL");
  return !other.empty() ? other : reason_if(c.dist.ranks == 1, "one rank does not use NCCL");
}

std::string no_library(const RunConfig& c, const ConfigOutcome&) {
  return without_gpu(c, "uses no library that reads it");
}

std::string no_messages(const RunConfig& c, const ConfigOutcome&) {
  const std::string other = without_gpu(c, "carries tensors between threads or by MPI");
  return !other.empty() ? other : reason_if(c.dist.ranks == 1, "one rank sends nothing");
}

void refuse_gpus(const RunConfig& config, const ConfigOutcome&, Problems& problems) {
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

}  // namespace

Topic gpus_topic() {
  std::vector<NoEffectRule> idle{
      {{"env_vars.CUDA_DEVICE_MAX_CONNECTIONS", "env_vars.NCCL_NET_GDR_C2C",
        "env_vars.NCCL_NET_GDR_LEVEL", "env_vars.NCCL_NVLS_ENABLE", "env_vars.NCCL_GRAPH_REGISTER",
        "env_vars.NCCL_P2P_NET_CHUNKSIZE", "env_vars.NCCL_ALGO"},
       no_library},
      {{"dist.product_algorithms_path"},
       [](const RunConfig& c, const ConfigOutcome&) {
         return without_gpu(c, "does not use cuBLASLt");
       }},
      {{"dist.nccl_communicator_config_path", "dist.nccl_blocking", "dist.nccl_multiprocessors",
        "dist.use_sharp", "ddp.nccl_ub"},
       without_nccl},
      {{"dist.distributed_backend", "model.pipeline_model_parallel_comm_backend"}, no_messages},
      {{"dist.high_priority_stream_groups"},
       [](const RunConfig& c, const ConfigOutcome&) {
         const std::string other = without_gpu(c, "has no streams with priorities");
         return !other.empty() ? other : reason_if(c.dist.ranks == 1, "one rank sends nothing");
       }},
      {{"model.deterministic_mode"},
       [](const RunConfig& c, const ConfigOutcome&) {
         const std::string nccl = without_nccl(c);
         if (nccl.empty() && c.dist.distributed_backend == TensorTransport::nccl)
           return std::string();
         return (nccl.empty() ? "dist.distributed_backend = gloo does not use NCCL" : nccl) +
                ", and everything else has one order of sums anyway";
       }},
      {{"dist.vboost"},
       [](const RunConfig& c, const ConfigOutcome&) {
         return without_gpu(c, "has no GPU whose slider could be moved");
       }},
      {{"dist.numactl"},
       [](const RunConfig& c, const ConfigOutcome&) {
         const DeviceKind device = c.dist.device.value();
         if (device == DeviceKind::cuda) return std::string();
         if (device != DeviceKind::cpu)
           return stated("dist.device", device) + ": no rank of it computes";
         return reason_if(!c.dist.numactl.value_or(false),
                          "ranks of the cpu are not bound unless it is true");
       }},
  };
  return {refuse_gpus, std::move(idle)};
}

}  // namespace viaduct
