// Environment variables that the guides set, with their meaning. Viaduct needs none; a
// configuration lists them in `env_vars`.

#include "config/catalogue.h"

namespace viaduct::catalogue_tables {
namespace {

constexpr KnobReach kCuda = KnobReach::cuda_only;
constexpr std::string_view kType = "string or null", kUnset = "null";

constexpr KnobRow kGpuVariables[] = {
    {"CUDA_DEVICE_MAX_CONNECTIONS", kType, kUnset, "",
     "Hardware queues of a GPU. The guides set 1 before Blackwell so that communication is "
     "launched before the GEMM it overlaps; "
     "it must not be 1 under fully sharded data parallel or expert overlap. Here events order "
     "launches.",
     "", "", kCuda},
    {"NCCL_NET_GDR_C2C", kType, kUnset, "",
     "1: network cards reach GPU memory over the chip-to-chip link (NCCL 2.26 and later), with "
     "offload.",
     "", "", kCuda},
    {"NCCL_NET_GDR_LEVEL", kType, kUnset, "",
     "PHB: how near a network card must be to read GPU memory (NCCL up to 2.25), with offload.", "",
     "", kCuda},
    {"NCCL_NVLS_ENABLE", kType, kUnset, "",
     "0: no reductions in NVLink switches, which saves GPU memory.", "", "", kCuda},
    {"NCCL_GRAPH_REGISTER", kType, kUnset, "", "0: no buffer registration inside CUDA graphs.", "",
     "", kCuda},
    {"NCCL_P2P_NET_CHUNKSIZE", kType, kUnset, "",
     "Bytes of a network chunk of sends and receives; 2097152 for bandwidth.", "", "", kCuda},
    {"NCCL_ALGO", kType, kUnset, "", "Fixes the algorithm of collectives, for deterministic sums.",
     "", "", kCuda},
    {"TORCH_NCCL_AVOID_RECORD_STREAMS", kType, kUnset, "",
     "1: the program keeps buffers alive itself, without record_stream calls. Here handles own "
     "their tensors.",
     "", "", kCuda},
    {"TORCH_NCCL_HIGH_PRIORITY", kType, kUnset, "", "1: communication streams have high priority.",
     "", "", kCuda},
    {"PYTORCH_CUDA_ALLOC_CONF", kType, kUnset, "",
     "expandable_segments:True: less fragmentation of GPU memory. Memory is planned before the "
     "first step here.",
     "", "", kCuda},
    {"NVTE_FWD_LAYERNORM_SM_MARGIN", kType, kUnset, "",
     "Multiprocessors that norm kernels of the forward leave to communication (16 to 20).", "", "",
     kCuda},
    {"NVTE_BWD_LAYERNORM_SM_MARGIN", kType, kUnset, "",
     "Multiprocessors that norm kernels of the backward leave to communication (16 to 20).", "", "",
     kCuda},
    {"NVTE_FLASH_ATTN", kType, kUnset, "",
     "Whether flash attention may be chosen; model.attention_backend here.", "", "NVTE_FLASH_ATT",
     kCuda},
    {"NVTE_FUSED_ATTN", kType, kUnset, "",
     "Whether cuDNN attention may be chosen; model.attention_backend here.", "", "NVTE_FUSED_ATT",
     kCuda},
    {"NVTE_UNFUSED_ATTN", kType, kUnset, "",
     "Whether unfused attention may be chosen; model.attention_backend here.", "",
     "NVTE_UNFUSED_ATT", kCuda},
    {"UB_SKIPMC", kType, kUnset, "",
     "1: overlap buffers use CUDA IPC instead of multicast mappings.", "", "", kCuda},
};

constexpr KnobRow kLauncherVariables[] = {
    {"RANK", kType, kUnset, "", "Rank of this process, set by torchrun-style launchers.", "", "",
     kCuda},
    {"WORLD_SIZE", kType, kUnset, "",
     "Number of ranks, set by torchrun-style launchers; dist.ranks otherwise.", "", "", kCuda},
    {"LOCAL_RANK", kType, kUnset, "", "Rank on this machine, set by torchrun-style launchers.", "",
     "", kCuda},
    {"MASTER_ADDR", kType, kUnset, "",
     "Host where ranks rendezvous, set by torchrun-style launchers.", "", "", kCuda},
    {"MASTER_PORT", kType, kUnset, "",
     "Port where ranks rendezvous, set by torchrun-style launchers.", "", "", kCuda},
};

}  // namespace

std::vector<KnobTable> environment() {
  return {{"env_vars", "Environment variables that the guides of Megatron-Bridge and NeMo set.",
           "it concerns GPUs", kGpuVariables},
          {"env_vars", "", "on cpu ranks come from dist.ranks or MPI", kLauncherVariables}};
}

}  // namespace viaduct::catalogue_tables
