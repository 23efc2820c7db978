// Planned knobs that trade memory for time: recompute, offload, optimizer state formats.

#include "config/catalogue.h"

namespace viaduct::catalogue_tables {
namespace {

constexpr KnobRow kOffload[] = {
    {"cpu_offloading_weights", "bool", "false", "", "cpu_offloading moves weights.", ""},
};

constexpr KnobRow kOffloadBuffers[] = {
    {"cpu_offloading_double_buffering", "bool", "false", "",
     "Two buffers for what comes back from the second memory.", "", "", KnobReach::nowhere},
};

constexpr KnobRow kOptimizer[] = {
    {"optimizer_cpu_offload", "bool", "false", "",
     "A part of the optimizer's state and update lives on the host.",
     "needs use_precision_aware_optimizer"},
    {"optimizer_offload_fraction", "number", "0.0", "", "That part.", "0 to 1"},
    {"overlap_cpu_optimizer_d2h_h2d", "bool", "false", "",
     "Copies to and from the host overlap the host's update.", ""},
    {"use_precision_aware_optimizer", "bool", "false", "",
     "State formats can be chosen one by one.", "Adam with the distributed optimizer"},
    {"main_grads_dtype", "string", "fp32", "fp32 bf16", "Format of main gradients.",
     "needs use_precision_aware_optimizer"},
    {"main_params_dtype", "string", "fp32", "fp32 fp16", "Format of masters.",
     "needs use_precision_aware_optimizer"},
    {"exp_avg_dtype", "string", "fp32", "fp32 fp16 bf16 fp8", "Format of Adam's mean.",
     "needs use_precision_aware_optimizer"},
    {"exp_avg_sq_dtype", "string", "fp32", "fp32 fp16 bf16 fp8",
     "Format of Adam's mean of squares.", "needs use_precision_aware_optimizer"},
    {"store_param_remainders", "bool", "true", "",
     "Masters of BF16 weights are kept as their low 16 bits. Effective with "
     "use_precision_aware_optimizer.",
     ""},
    {"sgd_momentum", "number", "0.9", "", "Momentum of sgd.", ""},
};

}  // namespace

std::vector<KnobTable> memory() {
  return {{"model", "", "offload of weights", kOffload},
          {"model", "",
           "what comes back always has two places, that of the segment under way and that of the "
           "next one",
           kOffloadBuffers},
          {"optimizer", "", "optimizer state formats and offload", kOptimizer}};
}

}  // namespace viaduct::catalogue_tables
