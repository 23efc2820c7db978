#include "comm/queued_operation.h"

#include <algorithm>

namespace viaduct {

QueuedOperation::~QueuedOperation() {
  try {
    if (!tensors_.empty()) wait_on(kComputeStream);
  } catch (...) {  // a rank failed: reported when the run ends
  }
}

void QueuedOperation::finish_late() {
  auto* const late = dynamic_cast<LateOperation*>(running_.get());
  if (late == nullptr || tensors_.empty()) return;
  late->finish();
  complete_ = device_.record_event(stream_);
}

void QueuedOperation::wait_on(int stream) {
  finish_late();
  device_.wait(stream, complete_);
  for (const Tensor& tensor : tensors_) device_.hold(stream, tensor);
  tensors_.clear();
}

void QueuedOperation::wait() {
  finish_late();
  device_.wait_host(complete_);
  running_->wait();  // says why, if it was not completed
  wait_on(kComputeStream);
}

bool JoinedOperations::ready() {
  return std::all_of(operations_.begin(), operations_.end(),
                     [](auto& one) { return one->ready(); });
}

void JoinedOperations::wait() {
  for (const auto& one : operations_) one->wait();
}

double JoinedOperations::busy_seconds() const {
  double sum = 0;
  for (const auto& one : operations_) sum += one->busy_seconds();
  return sum;
}

}  // namespace viaduct
