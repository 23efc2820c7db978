// Planned knobs of tensor, context, pipeline and data parallelism, and of fully sharded weights.

#include "config/catalogue.h"

namespace viaduct::catalogue_tables {
namespace {

constexpr KnobReach kCuda = KnobReach::cuda_only, kNowhere = KnobReach::nowhere;

constexpr KnobRow kPipeline[] = {
    {"encoder_pipeline_model_parallel_size", "int", "0", "",
     "Stages of the encoder of an encoder-decoder model; 0: it lives on the decoder's first stage.",
     "0 or 1 in practice"},
    {"encoder_tensor_model_parallel_size", "int", "0", "", "tp of the encoder; 0: tp.",
     "needs encoder_pipeline_model_parallel_size > 0; at most tp"},
};

constexpr KnobRow kMessages[] = {
    {"batch_p2p_sync", "bool", "true", "",
     "Device synchronization after grouped sends and receives.", "", "", kNowhere},
};

constexpr KnobRow kHandles[] = {
    {"tp_comm_bootstrap_backend", "string", "nccl", "nccl mpi gloo",
     "How buffer handles are exchanged at start.", "", "", kNowhere},
};

constexpr KnobRow kOverlapOnGpu[] = {
    {"num_sm", "int or null", "null", "",
     "Multiprocessors given to communication; null: 16, on rings 1.", "at most the device's", "",
     kCuda},
    {"cga_size", "int or null", "null", "",
     "Cluster size of the communication kernel; null: 2, on rings 1.", "1 to 4, at most num_sm", "",
     kCuda},
    {"set_sm_margin", "bool", "false", "", "The GEMM leaves num_sm multiprocessors free.", "", "",
     kCuda},
    {"atomic_gemm", "bool", "false", "", "Chunks are handed over by counters inside one kernel.",
     "FP8; both ends paired", "", kCuda},
    {"use_ce", "bool", "true", "", "Copy engines move the chunks.", "", "", kCuda},
};

constexpr KnobRow kDataOnGpu[] = {
    {"disable_symmetric_registration", "bool", "false", "", "Registered buffers are not symmetric.",
     "needs nccl_ub", "", kCuda},
};

constexpr KnobRow kRegistration[] = {
    {"fsdp_manual_registration", "bool", "false", "",
     "Fully sharded buffers are registered at one point.", "", "", kNowhere},
};

constexpr KnobRow kFullySharded[] = {
    {"megatron_fsdp_version", "int", "1", "", "Version of Megatron's implementation.", "", "",
     kNowhere},
};

constexpr KnobRow kInit[] = {
    {"use_decentralized_pg", "bool", "false", "", "Groups as values instead of globals.", "", "",
     kNowhere},
};

}  // namespace

std::vector<KnobTable> parallel() {
  const char* gpu = "a setting of the cuda backend";
  return {
      {"model", "", "pipeline parallelism", kPipeline},
      {"model", "", "streams wait for messages by events, and the host does not wait", kMessages},
      {"model", "",
       "ranks exchange no handles of buffers: what NCCL needs to connect goes over the hosts' own "
       "connections",
       kHandles},
      {"comm_overlap", "Communication hidden under computation.", gpu, kOverlapOnGpu},
      {"ddp", "", gpu, kDataOnGpu},
      {"ddp", "", "the memory of a run is one block, which ddp.nccl_ub registers once",
       kRegistration},
      {"ddp", "", "there is one implementation of fully sharded weights", kFullySharded},
      {"dist", "", "groups of ranks are always values", kInit},
  };
}

}  // namespace viaduct::catalogue_tables
