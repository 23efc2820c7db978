// Planned knobs of tensor, context, pipeline and data parallelism, and of fully sharded weights.

#include "config/catalogue.h"

namespace viaduct::catalogue_tables {
namespace {

constexpr KnobReach kCuda = KnobReach::cuda_only;

constexpr KnobRow kPipeline[] = {
    {"pipeline_model_parallel_comm_backend", "string or null", "null", "nccl ucc",
     "Transport between stages.", "", "", kCuda},
    {"batch_p2p_sync", "bool", "true", "",
     "Device synchronization after grouped sends and receives.", "", "", kCuda},
    {"encoder_pipeline_model_parallel_size", "int", "0", "",
     "Stages of the encoder of an encoder-decoder model; 0: it lives on the decoder's first stage.",
     "0 or 1 in practice"},
    {"encoder_tensor_model_parallel_size", "int", "0", "", "tp of the encoder; 0: tp.",
     "needs encoder_pipeline_model_parallel_size > 0; at most tp"},
};

constexpr KnobRow kTensor[] = {
    {"tp_comm_bootstrap_backend", "string", "nccl", "nccl mpi gloo",
     "How buffer handles are exchanged at start.", "", "", kCuda},
};

constexpr KnobRow kDataOnGpu[] = {
    {"fsdp_manual_registration", "bool", "false", "",
     "Fully sharded buffers are registered at one point.", "needs nccl_ub", "", kCuda},
};

constexpr KnobRow kFullySharded[] = {
    {"megatron_fsdp_version", "int", "1", "",
     "Version of Megatron's implementation; there is one here.", ""},
};

constexpr KnobRow kInit[] = {
    {"fsdp", "string or null", "null", "pytorch megatron",
     "Fully sharded data parallel, as one of two presets.", ""},
    {"use_decentralized_pg", "bool", "false", "",
     "Groups as values instead of globals; that is always so here.", ""},
    {"numactl", "bool", "false", "", "Each rank is bound to the memory and cores of one NUMA node.",
     ""},
};

constexpr KnobRow kInitOnGpu[] = {
    {"high_priority_stream_groups", "list of string", "[]", "",
     "Groups whose communication stream has high priority.", "", "", kCuda},
    {"distributed_backend", "string", "nccl", "nccl gloo", "Transport library.", "", "", kCuda},
    {"vboost", "int", "0", "", "Core-clock boost; state of the driver, set outside.", "",
     "--vboost", kCuda},
};

}  // namespace

std::vector<KnobTable> parallel() {
  const char* gpu = "a setting of the cuda backend";
  return {
      {"model", "", "pipeline parallelism", kPipeline},
      {"model", "", "tensor parallelism", kTensor},
      {"ddp", "", gpu, kDataOnGpu},
      {"ddp", "", "fully sharded data parallel", kFullySharded},
      {"dist", "", "fully sharded data parallel, the simulator, and binding to memory", kInit},
      {"dist", "", gpu, kInitOnGpu},
  };
}

}  // namespace viaduct::catalogue_tables
