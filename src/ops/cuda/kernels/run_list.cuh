#pragma once
// Launches over a list of runs that is passed in the kernel's parameters: each block belongs to one
// of them.

#include "ops/cuda/kernels/kernel.h"

namespace viaduct::cuda {

/// The run that this block belongs to.
template <class List>
__device__ int run_of_block(const List& args) {
  int r = 0;
  while (r + 1 < args.runs && args.run[r + 1].first_block <= int64_t{blockIdx.x}) ++r;
  return r;
}

/// Gives each run its blocks; returns how many all have.
template <class List>
int64_t number_blocks(List& args, int64_t elements_per_block) {
  int64_t blocks = 0;
  for (int r = 0; r < args.runs; ++r) {
    args.run[r].first_block = blocks;
    blocks += blocks_for(args.run[r].elements, elements_per_block);
  }
  return blocks;
}

}  // namespace viaduct::cuda
