#include "pipeline/dualpipe_order.h"

#include <algorithm>
#include <array>
#include <deque>

namespace viaduct {
namespace {

/// Counts the micro-batches of each chunk, and appends steps.
class Order {
 public:
  explicit Order(bool combines) : combines_(combines) {}

  Compute forward(int chunk) { return next(forwards_, ActionKind::forward, chunk); }
  Compute backward(int chunk) { return next(backwards_, ActionKind::backward, chunk); }
  /// Only the input half; the weight half waits for `weights`.
  Compute backward_input(int chunk) {
    Compute input = next(backwards_, ActionKind::backward_input, chunk);
    waiting_.push_back({ActionKind::backward_weight, input.micro_batch, chunk});
    return input;
  }
  Compute weights() {
    const Compute oldest = waiting_.front();
    waiting_.pop_front();
    return oldest;
  }
  bool has_weights() const { return !waiting_.empty(); }

  void add(const Compute& work) { steps_.push_back({{work}, false}); }
  /// Two that do not depend on each other.
  void add(const Compute& forward, const Compute& backward) {
    steps_.push_back({{forward, backward}, true, combines_});
  }
  std::vector<Step> take() {
    for (size_t i = 0; i < steps_.size(); ++i) {
      for (Compute& work : steps_[i].work) work.due = static_cast<int64_t>(i);
    }
    return std::move(steps_);
  }

 private:
  using Counts = std::array<int64_t, 2>;  // by chunk
  static Compute next(Counts& counts, ActionKind kind, int chunk) {
    return {kind, counts[static_cast<size_t>(chunk)]++, chunk};
  }

  bool combines_;
  Counts forwards_{}, backwards_{};
  std::deque<Compute> waiting_;  // weight halves
  std::vector<Step> steps_;
};

std::vector<Step> forwards_alone(int64_t micro_batches, int64_t ahead) {
  Order order(false);
  const int64_t lead = std::min(micro_batches, ahead);
  for (int64_t i = 0; i < lead; ++i) order.add(order.forward(0));
  for (int64_t i = 0; i < micro_batches; ++i) {
    order.add(order.forward(1));
    if (i + lead < micro_batches) order.add(order.forward(0));
  }
  return order.take();
}

}  // namespace

std::vector<Step> dualpipe_v_order(const ScheduleSettings& s, int stage) {
  const int below = s.pp - 1 - stage;  // stages between this one and the turn of the V
  if (!s.backward) return forwards_alone(s.micro_batches, 2 * below + 1);
  Order order(s.combines);
  // Until the first micro-batch has come back.
  for (int i = 0; i < 2 * below; ++i) order.add(order.forward(0));
  for (int i = 0; i <= stage; ++i) {
    order.add(order.forward(0));
    order.add(order.forward(1));
  }
  for (int i = 0; i < below; ++i) {
    order.add(order.backward_input(1));
    order.add(order.weights());
    order.add(order.forward(1));
  }
  const int64_t steady = s.micro_batches - 2 * int64_t{s.pp} + stage + 1;
  for (int64_t i = 0; i < steady; ++i) {
    if (i == 0 && below == 0) {  // the next stage waits for this forward
      order.add(order.forward(0));
      order.add(order.backward(1));
    } else {
      const Compute forward = order.forward(0);
      order.add(forward, order.backward(1));
    }
    const Compute forward = order.forward(1);
    order.add(forward, order.backward(0));
  }
  for (int i = 0; i < below; ++i) {
    order.add(order.backward(1));
    const Compute forward = order.forward(1);
    order.add(forward, order.backward(0));
  }
  // The drain: of its second half the weight gradients fill the bubble behind it.
  const int drain = 2 * (stage + 1);
  for (int i = 0; i < drain; ++i) {
    const int chunk = i % 2 == 0 ? 1 : 0;
    order.add(i < stage + 1 ? order.backward(chunk) : order.backward_input(chunk));
  }
  for (int i = 0; i < below; ++i) {
    order.add(order.weights());
    order.add(order.backward_input(0));
  }
  while (order.has_weights()) order.add(order.weights());
  return order.take();
}

}  // namespace viaduct
