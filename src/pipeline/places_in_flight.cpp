#include "pipeline/places_in_flight.h"

#include <algorithm>

namespace viaduct {

std::map<std::pair<int64_t, int>, int64_t> places_in_flight(const ActionList& actions) {
  using Of = std::pair<int64_t, int>;
  std::map<Of, int64_t> order;  // of forwards
  std::map<Of, size_t> ends;    // the last action that needs all of it
  for (size_t i = 0; i < actions.size(); ++i) {
    const Action& action = actions[i];
    const Of of{action.micro_batch, action.chunk};
    if (action.kind == ActionKind::forward) order.emplace(of, static_cast<int64_t>(order.size()));
    const bool part = action.kind == ActionKind::backward_weight && !action.segments.is_whole();
    if (computes(action.kind) && !part) ends[of] = i;
  }
  int64_t held = 0, most = 1;
  std::map<Of, bool> begun;
  for (size_t i = 0; i < actions.size(); ++i) {
    const Of of{actions[i].micro_batch, actions[i].chunk};
    if (!computes(actions[i].kind)) continue;
    if (begun.emplace(of, true).second) ++held;
    most = std::max(most, held);
    if (ends.at(of) == i) --held;
  }
  for (auto& [of, place] : order) place %= most;
  return order;
}

}  // namespace viaduct
