// Planned knobs that trade memory for time.

#include "config/catalogue.h"

namespace viaduct::catalogue_tables {
namespace {

constexpr KnobRow kOffloadBuffers[] = {
    {"cpu_offloading_double_buffering", "bool", "false", "",
     "Two buffers for what comes back from the second memory.", "", "", KnobReach::nowhere},
};

}  // namespace

std::vector<KnobTable> memory() {
  return {{"model", "",
           "what comes back always has two places, that of the segment under way and that of the "
           "next one",
           kOffloadBuffers}};
}

}  // namespace viaduct::catalogue_tables
