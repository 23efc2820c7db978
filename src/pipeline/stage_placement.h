#pragma once
// Which pipeline rank has which virtual stage.

#include <cstdint>

namespace viaduct {

enum class StagePlacement {
  loop,  // virtual stage i is chunk i / pp of rank i % pp
  v,     // two chunks a rank: down the ranks with chunk 0, and back up with chunk 1
};

struct StageOrder {
  int pp = 1;
  StagePlacement placement = StagePlacement::loop;

  int64_t virtual_stage(int rank, int chunk) const {
    if (placement == StagePlacement::v && chunk == 1) return 2 * int64_t{pp} - 1 - rank;
    return int64_t{chunk} * pp + rank;
  }
  int rank_of(int64_t virtual_stage) const {
    const auto place = static_cast<int>(virtual_stage % pp);
    const bool back = placement == StagePlacement::v && virtual_stage >= pp;
    return back ? pp - 1 - place : place;
  }
};

}  // namespace viaduct
