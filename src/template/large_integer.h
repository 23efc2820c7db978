#pragma once

#include "base/error.h"

namespace viaduct {

/// An integer of JSON beyond 64 bits, which Python shows as it is and a TemplateValue cannot hold.
class LargeInteger : public IoError {
 public:
  using IoError::IoError;
};

}  // namespace viaduct
