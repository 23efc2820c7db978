#pragma once
// Detects unusually large gradients: Megatron's rule of check_for_large_grads. A state machine on
// the host; the caller provides the norms.

#include <cstdint>
#include <string>
#include <vector>

namespace viaduct {

class LargeGradients {
 public:
  /// The first updates define the usual norm …
  static constexpr int64_t kSamples = 100;
  /// … and this many times the largest of them is unusual.
  static constexpr double kFactor = 10;

  /// Takes the norms of one update, by bucket. Returns a message about the first unusually large
  /// one; "" if there is none. Norms that are not finite are ignored here:
  /// ddp.check_for_nan_in_grad handles them.
  std::string look(const std::vector<double>& norms);

 private:
  int64_t updates_ = 0;
  std::vector<double> largest_;  // of the first updates, by bucket
};

}  // namespace viaduct
