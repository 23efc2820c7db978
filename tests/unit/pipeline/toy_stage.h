#pragma once
// A minimal model: virtual stage v computes y = (v + 2) · x + micro-batch for rows whose number
// differs by micro-batch, and its weight gradient is the sum of x · dy. All numbers are whole, so
// every order of summation is exact. Messages have two tensors. It counts segments like a model
// with kSegments of them: the last one does the work of the forward and of its weight gradient, the
// others pass on their input.

#include <algorithm>
#include <map>
#include <memory>
#include <vector>

#include "pipeline/schedule.h"
#include "pipeline/stage_program.h"

namespace viaduct::test {

class ToyStage : public StageProgram {
 public:
  ToyStage(const Communicator& pp, const ScheduleSettings& settings)
      : stage_(pp.rank()),
        order_(settings.order()),
        keeps_(settings.backward),
        gradients_(size_t(settings.virtual_stages)) {
    last_ = order_.count(settings.virtual_stages) - 1;
  }

  static constexpr int kSegments = 3;

  TensorSet forward(int64_t micro_batch, int chunk, SegmentRange range, TensorSet in) override {
    if (!passes(range, kSegments)) return in.empty() ? first_input(micro_batch) : in;
    const int64_t v = virtual_stage(chunk);
    if (v == 0 && in.empty()) in = first_input(micro_batch);
    log_number(in, micro_batch);
    const Tensor x = in.get("x");
    if (keeps_) saved_[{micro_batch, chunk}] = x;
    const Tensor y = rows(micro_batch, [&](int64_t i) {
      return double(v + 2) * x.data<double>()[i] + double(micro_batch);
    });
    if (v == last_) {
      loss_ += sum(y);
      return {};
    }
    return message(y, micro_batch);
  }
  TensorSet backward(int64_t micro_batch, int chunk, SegmentRange range, TensorSet d_out) override {
    TensorSet d_in = backward_input(micro_batch, chunk, range, std::move(d_out));
    backward_weight(micro_batch, chunk, range);
    return d_in;
  }
  TensorSet backward_input(int64_t micro_batch, int chunk, SegmentRange range,
                           TensorSet d_out) override {
    const int64_t v = virtual_stage(chunk);
    if (passes(range, kSegments)) {
      const Tensor dy =
          v == last_ ? rows(micro_batch, [&](int64_t i) { return double(i + 1); }) : d_out.get("x");
      if (v < last_) log_number(d_out, micro_batch);
      d_saved_[{micro_batch, chunk}] = dy;
      const Tensor dx =
          rows(micro_batch, [&](int64_t i) { return double(v + 2) * dy.data<double>()[i]; });
      d_out = v == 0 ? numbered(dx, micro_batch) : message(dx, micro_batch);
    }
    return v == 0 && passes(range, 1) ? TensorSet() : d_out;
  }
  void backward_weight(int64_t micro_batch, int chunk, SegmentRange range) override {
    if (!passes(range, kSegments)) return;
    if (!range.is_whole()) ++heads_;
    const Tensor x = take(saved_, micro_batch, chunk), dy = take(d_saved_, micro_batch, chunk);
    for (int64_t i = 0; i < x.elements(); ++i)
      gradients_[size_t(chunk)] += x.data<double>()[i] * dy.data<double>()[i];
  }
  void begin_chunk(int) override { ++begun_; }
  Edge edge(const Action& message) override {
    return {{"x", DType::f64, {message.micro_batch + 1}}, {"number", DType::f64, {1}}};
  }
  Tensor allocate(const EdgeTensor& tensor, Flow) override {
    return host_tensor(tensor.dtype, tensor.shape);
  }

  /// By chunk.
  const std::vector<double>& weight_gradients() const { return gradients_; }
  double loss() const { return loss_; }
  /// Checks that no store remains and that every message belonged to its micro-batch.
  bool all_read() const { return saved_.empty() && d_saved_.empty() && numbers_fit_; }
  /// The maximum number of live outputs of this stage.
  int64_t peak_messages() const { return peak_messages_; }
  int begun() const { return begun_; }
  /// Weight halves of the last segment that ran separately.
  int64_t heads() const { return heads_; }

 private:
  using Kept = std::map<std::pair<int64_t, int>, Tensor>;

  /// Whether the range contains the segment with this number, from 1.
  static bool passes(SegmentRange range, int number) {
    const SegmentRange among = range.among(kSegments);
    return among.begin < number && number <= among.end;
  }
  TensorSet first_input(int64_t micro_batch) {
    return numbered(rows(micro_batch, [&](int64_t i) { return double(i + 1); }), micro_batch);
  }
  static TensorSet numbered(const Tensor& x, int64_t micro_batch) {
    TensorSet set("x", x);
    Tensor number = host_tensor(DType::f64, {1});
    *number.data<double>() = double(micro_batch);
    set.set("number", number);
    return set;
  }
  int64_t virtual_stage(int chunk) const { return order_.virtual_stage(stage_, chunk); }
  template <class F>
  static Tensor rows(int64_t micro_batch, F&& value) {
    Tensor tensor = host_tensor(DType::f64, {micro_batch + 1});
    for (int64_t i = 0; i <= micro_batch; ++i) tensor.data<double>()[i] = value(i);
    return tensor;
  }
  static double sum(const Tensor& tensor) {
    double total = 0;
    for (int64_t i = 0; i < tensor.elements(); ++i) total += tensor.data<double>()[i];
    return total;
  }
  TensorSet message(const Tensor& x, int64_t micro_batch) {
    made_.push_back(x.storage());
    const auto alive = [](const std::weak_ptr<Storage>& made) { return !made.expired(); };
    peak_messages_ = std::max(peak_messages_, std::count_if(made_.begin(), made_.end(), alive));
    return numbered(x, micro_batch);
  }
  void log_number(const TensorSet& set, int64_t micro_batch) {
    numbers_fit_ = numbers_fit_ && *set.get("number").data<double>() == double(micro_batch);
  }
  static Tensor take(Kept& kept, int64_t micro_batch, int chunk) {
    Tensor tensor = kept.at({micro_batch, chunk});
    kept.erase({micro_batch, chunk});
    return tensor;
  }

  int stage_;
  StageOrder order_;
  bool keeps_;
  int64_t last_ = 0;
  std::vector<double> gradients_;
  Kept saved_, d_saved_;
  std::vector<std::weak_ptr<Storage>> made_;
  int64_t peak_messages_ = 0;
  double loss_ = 0;
  int64_t heads_ = 0;
  bool numbers_fit_ = true;
  int begun_ = 0;
};

/// The result of one rank for virtual stages 0 … count − 1 in sequence.
struct ToyResult {
  std::vector<double> gradients;  // by virtual stage
  double loss = 0;
};
inline ToyResult toy_result(int64_t stages, int64_t micro_batches) {
  ToyResult result;
  result.gradients.resize(size_t(stages));
  for (int64_t m = 0; m < micro_batches; ++m) {
    for (int64_t i = 0; i <= m; ++i) {
      std::vector<double> x{double(i + 1)};
      for (int64_t v = 0; v < stages; ++v) x.push_back(double(v + 2) * x.back() + double(m));
      result.loss += x.back();
      double d = double(i + 1);
      for (int64_t v = stages - 1; v >= 0; --v) {
        result.gradients[size_t(v)] += x[size_t(v)] * d;
        d *= double(v + 2);
      }
    }
  }
  return result;
}

}  // namespace viaduct::test
