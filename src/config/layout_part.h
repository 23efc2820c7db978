#pragma once
// What the search of plans chooses about the layout of a run. A field says where it is declared
// which part its value decides, `.decides(…)`: the search leaves a part alone of which the user
// gave a field (plan/search_limits.h).

namespace viaduct {

enum class LayoutPart {
  tp,
  cp,
  pp,
  vpp,
  encoder_pp,
  encoder_tp,
  ep,
  etp,
  micro_batch,
  recompute,
  sharding,
  sequence_parallel,
};

}  // namespace viaduct
