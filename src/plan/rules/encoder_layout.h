#pragma once
// Where an encoder or a vision tower is: on the decoder's first stage, or on how many of its own.

#include "plan/rules/rule.h"

namespace viaduct::rules {

/// The rule `encoder-layout`.
Finding encoder_layout(const Figures& f, const Thresholds& limits);

}  // namespace viaduct::rules
