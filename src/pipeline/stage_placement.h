#pragma once
// Which pipeline rank has which virtual stage.

#include <cstdint>

namespace viaduct {

enum class StagePlacement {
  loop,  // virtual stage i is chunk i / pp of rank i % pp
  v,     // two chunks a rank: down the ranks with chunk 0, and back up with chunk 1
};

/// The virtual stages of a model, in its order: one of each rank in front, then those of the
/// placement over the other ranks.
struct StageOrder {
  int pp = 1;
  StagePlacement placement = StagePlacement::loop;
  int front = 0;  // of the pp ranks those of an encoder, which come first and have one chunk each

  int behind() const { return pp - front; }
  /// Chunks of a rank where those behind the front have `virtual_stages`.
  int chunks(int rank, int virtual_stages) const { return rank < front ? 1 : virtual_stages; }
  /// All of the model.
  int64_t count(int virtual_stages) const { return front + int64_t{behind()} * virtual_stages; }

  int64_t virtual_stage(int rank, int chunk) const {
    if (rank < front) return rank;
    const int place = rank - front;
    if (placement == StagePlacement::v && chunk == 1)
      return front + 2 * int64_t{behind()} - 1 - place;
    return front + int64_t{chunk} * behind() + place;
  }
  int rank_of(int64_t virtual_stage) const {
    if (virtual_stage < front) return static_cast<int>(virtual_stage);
    const int64_t number = virtual_stage - front;
    const auto place = static_cast<int>(number % behind());
    const bool back = placement == StagePlacement::v && number >= behind();
    return front + (back ? behind() - 1 - place : place);
  }
  int chunk_of(int64_t virtual_stage) const {
    return virtual_stage < front ? 0 : static_cast<int>((virtual_stage - front) / behind());
  }
};

}  // namespace viaduct
