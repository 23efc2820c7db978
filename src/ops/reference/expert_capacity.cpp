#include "ops/expert_capacity.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "ops/reference/reference.h"

namespace viaduct::reference {

void limit_experts(const LimitExpertsArgs& args) {
  auto* const choice = args.choice.data<int32_t>();
  auto* const p = args.probabilities.data<double>();
  const int64_t together = args.experts_together;
  for (int64_t run = 0; run < args.experts / together; ++run) {
    std::vector<int64_t> own;  // choices of these experts, in the order of tokens
    for (int64_t i = 0; i < args.choice.elements(); ++i)
      if (choice[i] >= 0 && choice[i] / together == run) own.push_back(i);
    if (args.policy == DropPolicy::probabilities) {
      std::stable_sort(own.begin(), own.end(), [&](int64_t a, int64_t b) {
        return std::isnan(p[a]) ? !std::isnan(p[b]) : p[a] > p[b];
      });
    }
    for (size_t i = static_cast<size_t>(args.capacity); i < own.size(); ++i)
      choice[own[i]] = -1, p[own[i]] = 0;
  }
}

}  // namespace viaduct::reference
