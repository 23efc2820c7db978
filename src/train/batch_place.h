#pragma once
// Which part of a micro-batch's tokens a rank has.

#include "comm/parallel_groups.h"

namespace viaduct {

struct BatchPlace {
  int cp = 1, cp_rank = 0;         // the documents are cut over the context ranks
  int cp_inner = 1;                // of them exchange heads in hierarchical context parallel
  int tp = 1, tp_rank = 0;         // and the tokens of a context rank over the tensor ranks,
  bool sequence_parallel = false;  // in sequence parallel
};

BatchPlace batch_place(const ParallelGroups& groups, bool sequence_parallel);

}  // namespace viaduct
