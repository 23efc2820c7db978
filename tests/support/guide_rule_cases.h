#pragma once
// Handmade figures, and for each rule a run in which its condition holds, one in which it does not,
// and one at the border.

#include <functional>
#include <string>
#include <vector>

#include "plan/rules/rule.h"

namespace viaduct::rules::test {

/// An 8B model on 64 H100 with only data ranks, with round times.
Figures dense();
/// Tensor, context, pipeline and virtual sizes; the other ranks are data ranks.
void set_sizes(Figures& f, int tp, int cp = 1, int pp = 1, int vpp = 1);
/// 64 experts over 8 ranks.
void add_experts(Figures& f);

struct RuleCase {
  std::string id;
  enum Kind { holds, not_so, border } kind = holds;
  Outcome outcome = Outcome::fires;
  std::function<void(Figures&)> change;
};

std::vector<RuleCase> rule_cases();

}  // namespace viaduct::rules::test
