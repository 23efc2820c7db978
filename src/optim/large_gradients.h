#pragma once
// Which gradient is unusually large: Megatron's rule of check_for_large_grads. A state machine on
// the host; the caller provides the norms.

#include <cstdint>
#include <string>
#include <vector>

namespace viaduct {

class LargeGradients {
 public:
  /// The first updates are what is usual …
  static constexpr int64_t kSamples = 100;
  /// … and what is so many times the largest of them is not.
  static constexpr double kFactor = 10;

  /// The norms of the buckets in one update, by bucket. The first that is unusually large, with the
  /// numbers; "" if none is. A norm that is not finite is ignored here: ddp.check_for_nan_in_grad
  /// deals with it.
  std::string look(const std::vector<double>& norms);

 private:
  int64_t updates_ = 0;
  std::vector<double> largest_;  // of the first updates, by bucket
};

}  // namespace viaduct
