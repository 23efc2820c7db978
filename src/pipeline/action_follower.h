#pragma once
// Interface of an object that follows the actions of a stage as they run, and may leave some out.

#include "pipeline/action.h"

namespace viaduct {

class ActionFollower {
 public:
  virtual ~ActionFollower() = default;
  /// Before an action. False: what it computes, posts or waits for is left out, and `after` is not
  /// called. The chunks that it begins or reduces are still begun and reduced. If one action of a
  /// micro-batch is left out, all of them must be.
  virtual bool before(const Action& action) = 0;
  virtual void after(const Action& action) = 0;
};

}  // namespace viaduct
