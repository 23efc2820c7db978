#pragma once
// Rows that pass between stages of different tensor sizes: the side with more tensor ranks has a
// part of the rows on each, as messages have them (pipeline/stage_peers.h), and one gather over
// those that have the place of one rank at the other side (group tp.split) makes them whole.

#include "nn/segment.h"

namespace viaduct {

/// Rows of `all` that this rank has of what passes between the two sides.
int64_t split_rows(const RankContext& context, int64_t all);

/// [all, H] from the parts [split_rows, H] of the ranks.
Tensor gather_split_rows(RankContext& context, const Tensor& part, int64_t all, MemoryTag tag);

/// The rank's part of `all` [rows, H], a view.
Tensor cut_split_rows(const RankContext& context, const Tensor& all);

}  // namespace viaduct
