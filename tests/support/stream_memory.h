#pragma once
// A second memory of a StreamDevice: copies run in two separate streams, after compute, and compute
// waits for them. They do not own their memory.

#include <map>
#include <string>

#include "device/second_memory.h"
#include "support/stream_device.h"

namespace viaduct::test {

class StreamMemory final : public SecondMemory {
 public:
  explicit StreamMemory(StreamDevice& device) : device_(device) {}

  Id put(const Tensor& value) override;
  void finish_put(Id id) override;
  void fetch(Id id, const Tensor& value) override;
  void take(Id id) override;
  void finish_fetch(Id id) override;
  void put_again(Id id, const Tensor& value) override;
  void drop(Id id) noexcept override;

  int64_t puts() const { return next_; }

 private:
  struct Held {
    std::shared_ptr<std::string> bytes;
    Event copied;  // the last requested copy
  };
  /// Queues a copy in a stream after compute and `after`; returns the event after it.
  Event copy(const char* stream, const Event& after, void* to, const void* from, int64_t bytes,
             std::shared_ptr<std::string> owner);

  StreamDevice& device_;
  std::map<Id, Held> held_;
  Id next_ = 0;
};

}  // namespace viaduct::test
