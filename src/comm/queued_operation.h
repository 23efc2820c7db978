#pragma once
// Operations around others: one that a device stream waits for, and several joined into one.

#include <memory>
#include <vector>

#include "comm/communicator.h"

namespace viaduct {

/// An operation on a device's stream whose last work the host gives to the stream when it is waited
/// for.
class LateOperation : public CommOperation {
 public:
  /// Waits for what the host must wait for, and gives the rest to the stream.
  virtual void finish() = 0;
  void wait() override { finish(); }
};

/// The last operation given to a device's stream. Streams wait for it by an event; it holds its
/// tensors until compute has waited for it.
class QueuedOperation final : public CommOperation {
 public:
  QueuedOperation(std::unique_ptr<CommOperation> running, Device& device, int stream,
                  std::vector<Tensor> tensors)
      : running_(std::move(running)),
        device_(device),
        stream_(stream),
        complete_(device.record_event(stream)),
        tensors_(std::move(tensors)) {}
  /// If a handle is dropped, compute waits, because its tensors are freed.
  ~QueuedOperation() override;

  bool ready() override { return running_->ready(); }
  void wait() override;
  void wait_on(int stream) override;
  double busy_seconds() const override { return running_->busy_seconds(); }

 private:
  void finish_late();

  std::unique_ptr<CommOperation> running_;
  Device& device_;
  int stream_;
  Event complete_;
  std::vector<Tensor> tensors_;
};

/// Complete when all are; `wait` waits for them in order.
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
