#pragma once
// How fast our own kernels of a GPU can be at most by the instructions of their loops: a warp that
// executes many others for each matrix instruction does not feed the matrix units.

#include <string_view>
#include <vector>

#include "hardware/cluster.h"
#include "timeline/record.h"

namespace viaduct {

class CountedKernels {
 public:
  /// `head_size`: of the model, which decides which kernel of attention runs.
  CountedKernels(const Gpu& gpu, int64_t head_size);
  /// Seconds of `flops` operations of an op by its kernel, whose matrix units need
  /// `product_seconds`; those alone if the kernel is none of ours with matrix instructions.
  double seconds(const OpEntryRecord& op, double flops, double product_seconds) const;

 private:
  struct Rate {
    std::string_view op, kernel;
    double flops = 0;    // a second, by instructions
    bool waits = false;  // its matrix units do nothing meanwhile
  };
  std::vector<Rate> rates_;
};

}  // namespace viaduct
