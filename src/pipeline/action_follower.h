#pragma once
// Who follows the actions of a stage as they run, and may leave some out.

#include "pipeline/action.h"

namespace viaduct {

class ActionFollower {
 public:
  virtual ~ActionFollower() = default;
  /// Before an action. False: what it computes, posts or waits for is left out, and `after` is not
  /// called. The chunks that it begins or reduces are begun and reduced all the same. Whoever
  /// leaves out one action of a micro-batch leaves out all of them.
  virtual bool before(const Action& action) = 0;
  virtual void after(const Action& action) = 0;
};

}  // namespace viaduct
