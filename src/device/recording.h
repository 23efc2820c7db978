#pragma once
// A record attached to a device for a scope.

#include "device/device.h"

namespace viaduct {

/// The device's calls go to `record` until the end of the scope, also if an exception ends it:
/// tensors that are freed later must not write to a destroyed record.
class Recording {
 public:
  Recording(Device& device, StepRecord& record) : device_(device), record_(record) {
    device_.set_record(&record_);
  }
  ~Recording() {
    if (device_.record() == &record_) device_.set_record(nullptr);
  }
  Recording(const Recording&) = delete;
  Recording& operator=(const Recording&) = delete;

 private:
  Device& device_;
  StepRecord& record_;
};

}  // namespace viaduct
