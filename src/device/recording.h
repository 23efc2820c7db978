#pragma once
// A record attached to a device for a scope.

#include "device/device.h"

namespace viaduct {

/// What the device does goes to `record` until the end of the scope, also where an error ends it:
/// tensors that are freed later must not write to a record that is gone.
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
