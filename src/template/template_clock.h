#pragma once
// The time that strftime_now shows. The room has no clock of its own.

namespace viaduct {

struct TemplateClock {
  int year = 1970, month = 1, day = 1, hour = 0, minute = 0, second = 0, microsecond = 0;
};

}  // namespace viaduct
