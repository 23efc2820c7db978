// Environment variables that the guides set and that mean nothing to the libraries used here: those
// of other programs, and those that launchers set. The others are in run/environment_config.cpp.

#include "config/catalogue.h"

namespace viaduct::catalogue_tables {
namespace {

constexpr KnobReach kElsewhere = KnobReach::nowhere;
constexpr std::string_view kType = "string or null", kUnset = "null";

constexpr KnobRow kOtherPrograms[] = {
    {"TORCH_NCCL_AVOID_RECORD_STREAMS", kType, kUnset, "",
     "1: the program keeps buffers alive itself, without record_stream calls. Here handles own "
     "their tensors.",
     "", "", kElsewhere},
    {"TORCH_NCCL_HIGH_PRIORITY", kType, kUnset, "", "1: communication streams have high priority.",
     "", "", kElsewhere},
    {"PYTORCH_CUDA_ALLOC_CONF", kType, kUnset, "",
     "expandable_segments:True: less fragmentation of GPU memory. Memory is planned before the "
     "first step here.",
     "", "", kElsewhere},
    {"NVTE_FWD_LAYERNORM_SM_MARGIN", kType, kUnset, "",
     "Multiprocessors that norm kernels of the forward leave to communication (16 to 20).", "", "",
     kElsewhere},
    {"NVTE_BWD_LAYERNORM_SM_MARGIN", kType, kUnset, "",
     "Multiprocessors that norm kernels of the backward leave to communication (16 to 20).", "", "",
     kElsewhere},
    {"NVTE_FLASH_ATTN", kType, kUnset, "",
     "Whether flash attention may be chosen; model.attention_backend here.", "", "NVTE_FLASH_ATT",
     kElsewhere},
    {"NVTE_FUSED_ATTN", kType, kUnset, "",
     "Whether cuDNN attention may be chosen; model.attention_backend here.", "", "NVTE_FUSED_ATT",
     kElsewhere},
    {"NVTE_UNFUSED_ATTN", kType, kUnset, "",
     "Whether unfused attention may be chosen; model.attention_backend here.", "",
     "NVTE_UNFUSED_ATT", kElsewhere},
    {"UB_SKIPMC", kType, kUnset, "",
     "1: overlap buffers use CUDA IPC instead of multicast mappings.", "", "", kElsewhere},
};

constexpr KnobRow kLauncherVariables[] = {
    {"RANK", kType, kUnset, "", "Rank of this process, set by torchrun-style launchers.", "", "",
     kElsewhere},
    {"WORLD_SIZE", kType, kUnset, "",
     "Number of ranks, set by torchrun-style launchers; dist.ranks otherwise.", "", "", kElsewhere},
    {"LOCAL_RANK", kType, kUnset, "", "Rank on this machine, set by torchrun-style launchers.", "",
     "", kElsewhere},
    {"MASTER_ADDR", kType, kUnset, "",
     "Host where ranks rendezvous, set by torchrun-style launchers.", "", "", kElsewhere},
    {"MASTER_PORT", kType, kUnset, "",
     "Port where ranks rendezvous, set by torchrun-style launchers.", "", "", kElsewhere},
};

}  // namespace

std::vector<KnobTable> environment() {
  return {{"env_vars", "", "a library that is not used here reads it", kOtherPrograms},
          {"env_vars", "", "a launcher sets it for each process, and here it would come too late",
           kLauncherVariables}};
}

}  // namespace viaduct::catalogue_tables
