// Planned knobs that trade memory for time: recompute, offload, optimizer state formats.

#include "config/catalogue.h"

namespace viaduct::catalogue_tables {
namespace {

constexpr KnobRow kRecompute[] = {
    {"distribute_saved_activations", "bool", "false", "",
     "A saved input is cut over tp and gathered in the backward.",
     "full recompute; not with sequence_parallel"},
    {"num_microbatches_with_partial_activation_checkpoints", "int or null", "null", "",
     "The first micro-batches in flight recompute fewer layers.", "needs recompute"},
};

constexpr KnobRow kOffload[] = {
    {"cpu_offloading", "bool", "false", "",
     "What the first cpu_offloading_num_layers save goes to host memory until the backward.",
     "no pipeline, no recompute"},
    {"cpu_offloading_num_layers", "int", "0", "", "Layers that offload.", "0 to num_layers - 1"},
    {"cpu_offloading_activations", "bool", "true", "", "Activations move.", "this or weights"},
    {"cpu_offloading_weights", "bool", "false", "", "Weights move.", "this or activations"},
    {"cpu_offloading_double_buffering", "bool", "false", "", "Two buffers on the way back.", ""},
    {"fine_grained_activation_offloading", "bool", "false", "",
     "Offload by module instead of by layer, under any pipeline.", ""},
    {"offload_modules", "list of string", "[]",
     "attn_norm qkv_linear core_attn attn_proj mlp_norm expert_fc1 moe_act",
     "Modules that offload.", "attn_proj with core_attn"},
};

constexpr KnobRow kOptimizer[] = {
    {"optimizer_cpu_offload", "bool", "false", "",
     "A part of the optimizer's state and update lives on the host.",
     "needs use_precision_aware_optimizer"},
    {"optimizer_offload_fraction", "number", "0.0", "", "That part.", "0 to 1"},
    {"overlap_cpu_optimizer_d2h_h2d", "bool", "false", "",
     "Copies to and from the host overlap the host's update.", ""},
};

}  // namespace

std::vector<KnobTable> memory() {
  return {{"model", "", "recomputation", kRecompute},
          {"model", "", "activation offload", kOffload},
          {"optimizer", "", "optimizer offload", kOptimizer}};
}

}  // namespace viaduct::catalogue_tables
