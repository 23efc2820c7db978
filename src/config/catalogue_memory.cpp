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
};

}  // namespace

std::vector<KnobTable> memory() {
  return {{"model", "", "offload of weights", kOffload},
          {"model", "",
           "what comes back always has two places, that of the segment under way and that of the "
           "next one",
           kOffloadBuffers},
          {"optimizer", "", "optimizer offload", kOptimizer}};
}

}  // namespace viaduct::catalogue_tables
