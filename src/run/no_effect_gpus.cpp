// Fields of GPUs, their graphs, libraries and profilers that have no effect.

#include <cstdlib>

#include "run/graph_config.h"
#include "run/no_effect_rules.h"
#include "run/nsys_command.h"

namespace viaduct {
namespace {

/// "dist.device = cpu has no GPU …", on another device than cuda.
std::string without_gpu(const RunConfig& c, std::string_view what) {
  return reason_if(!c.dist.on_cuda(),
                   fmt::format("{} {}", stated("dist.device", c.dist.device.value()), what));
}

/// Why no tensors travel over NCCL.
std::string without_nccl(const RunConfig& c) {
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

}  // namespace

const std::vector<NoEffectRule>& gpus_without_effect() {
  static const std::vector<NoEffectRule> kRules{
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
       [](const RunConfig& c, const ConfigOutcome&) { return without_nccl(c); }},
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
      {{"model.cuda_graph_impl"},
       [](const RunConfig& c, const ConfigOutcome&) {
         const bool each_step = c.tensor_inspect.enabled && c.tensor_inspect.interval == 1 &&
                                c.logger.log_interval == 1 &&
                                precision_recipe(c.mixed_precision).products.any();
         if (each_step && (captures_steps(c) || captures_layers(c)))
           return std::string("each step measures its operands (tensor_inspect), without graphs");
         return reason_if(c.graph.cuda_graph_impl != GraphCapture::none && !captures_steps(c) &&
                              !captures_layers(c),
                          stated("dist.device", c.dist.device.value()) + " launches no kernels");
       }},
      {{"model.cuda_graph_modules"},
       [](const RunConfig& c, const ConfigOutcome&) {
         return reason_if(!c.graph.cuda_graph_modules.empty() && !captures_layers(c),
                          stated("dist.device", c.dist.device.value()) + " launches no kernels");
       }},
      {{"model.cuda_graph_warmup_steps"},
       [](const RunConfig& c, const ConfigOutcome&) {
         return reason_if(!captures_steps(c) && !captures_layers(c),
                          "nothing is captured (model.cuda_graph_impl)");
       }},
      {{"profiling.profile_step_start", "profiling.profile_step_end", "profiling.profile_ranks"},
       [](const RunConfig& c, const ConfigOutcome&) {
         const bool watched = c.profiling.use_nsys_profiler && c.dist.on_cuda();
         return reason_if(!c.profiling.trace && !c.profiling.record_memory_history && !watched,
                          "neither profiling.trace nor record_memory_history is on");
       }},
      {{"profiling.use_nsys_profiler"},
       [](const RunConfig& c, const ConfigOutcome&) {
         return c.profiling.use_nsys_profiler
                    ? without_gpu(c, "has no GPU that Nsight Systems could record")
                    : std::string();
       }},
      {{"profiling.nsys_trace"},
       [](const RunConfig& c, const ConfigOutcome&) {
         const std::string other = without_gpu(c, "has no GPU that Nsight Systems could record");
         return !other.empty() ? other
                               : reason_if(profiler_watches(::getenv),
                                           "the command that started the profiler says what it "
                                           "records");
       }},
  };
  return kRules;
}

}  // namespace viaduct
