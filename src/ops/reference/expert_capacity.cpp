#include "ops/expert_capacity.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "ops/reference/reference.h"

namespace viaduct::reference {

void limit_experts(const LimitExpertsArgs& args) {
  auto* const choice = args.choice.data<int32_t>();
  auto* const p = args.probabilities.data<double>();
  for (int64_t e = 0; e < args.experts; ++e) {
    std::vector<int64_t> own;  // choices of this expert, in the order of tokens
    for (int64_t i = 0; i < args.choice.elements(); ++i)
      if (choice[i] == e) own.push_back(i);
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
