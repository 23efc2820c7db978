#pragma once
// Operations made of others: one that waits in a stream of the device, and several as one.

#include <memory>
#include <vector>

#include "comm/communicator.h"

namespace viaduct {

/// What a device's stream was given last. Streams wait for it by an event; its tensors belong to it
/// until compute has.
class QueuedOperation final : public CommOperation {
 public:
  QueuedOperation(std::unique_ptr<CommOperation> running, Device& device, int stream,
                  std::vector<Tensor> tensors)
      : running_(std::move(running)),
        device_(device),
        complete_(device.record_event(stream)),
        tensors_(std::move(tensors)) {}
  /// A handle that is dropped: compute waits, since the tensors go.
  ~QueuedOperation() override;

  bool ready() override { return running_->ready(); }
  void wait() override;
  void wait_on(int stream) override;
  double busy_seconds() const override { return running_->busy_seconds(); }

 private:
  std::unique_ptr<CommOperation> running_;
  Device& device_;
  Event complete_;
  std::vector<Tensor> tensors_;
};

/// Complete when all are; waited for in their order.
class JoinedOperations final : public CommOperation {
 public:
  explicit JoinedOperations(std::vector<std::unique_ptr<CommOperation>> operations)
      : operations_(std::move(operations)) {}

  bool ready() override;
  void wait() override;
  double busy_seconds() const override;

 private:
  std::vector<std::unique_ptr<CommOperation>> operations_;
};

}  // namespace viaduct
