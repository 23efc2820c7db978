// Knobs of mixture-of-experts layers that have no effect here: experts are computed one way.

#include "config/catalogue.h"

namespace viaduct::catalogue_tables {
namespace {

constexpr KnobReach kNowhere = KnobReach::nowhere;

constexpr KnobRow kAlways[] = {
    {"moe_grouped_gemm", "bool", "false", "",
     "One GEMM with variable rows for all local experts; always the case here.", "", "", kNowhere},
    {"moe_permute_fusion", "bool", "false", "",
     "Rows of tokens are sorted and padded by one operation; always the case here.", "", "",
     kNowhere},
    {"moe_router_fusion", "bool", "false", "",
     "Scores, groups, choice and weights by one operation, and another for its gradient and those "
     "of the balancing losses; always the case here.",
     "", "", kNowhere},
};

}  // namespace

std::vector<KnobTable> experts() {
  return {{"model", "", "experts are always computed so", kAlways}};
}

}  // namespace viaduct::catalogue_tables
