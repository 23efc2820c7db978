// Planned switches of fusions, attention kernels and graphs. Fused is the default; the unfused path
// gives the same numbers.

#include "config/catalogue.h"

namespace viaduct::catalogue_tables {
namespace {

constexpr KnobReach kCuda = KnobReach::cuda_only;

constexpr KnobRow kGpu[] = {
    {"persist_layer_norm", "bool", "true", "", "Persistent norm kernels.", "", "", kCuda},
    {"memory_efficient_layer_norm", "bool", "false", "",
     "Norms keep their output instead of their input.", "", "", kCuda},
    {"cuda_graph_impl", "string", "none", "none local transformer_engine full_iteration",
     "What is captured as a CUDA graph.", "static shapes", "enable_cuda_graph external_cuda_graph",
     kCuda},
    {"cuda_graph_modules", "list of string", "[]", "attn mlp moe moe_router moe_preprocess mamba",
     "Captured modules; empty: whole layers.",
     "moe needs dropping with padding; moe_preprocess needs moe_router", "cuda_graph_scope", kCuda},
    {"cuda_graph_warmup_steps", "int", "3", "", "Steps before capture.", "", "", kCuda},
    {"deterministic_mode", "bool", "false", "", "Bitwise equal runs; on cpu that is always so.", "",
     "deterministic", kCuda},
};

}  // namespace

std::vector<KnobTable> kernels() {
  return {{"model", "", "a setting of the cuda backend", kGpu}};
}

}  // namespace viaduct::catalogue_tables
