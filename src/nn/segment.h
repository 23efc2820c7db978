#pragma once
// A layer is a list of segments. A segment is the unit that schedulers see: it computes (a GEMM
// with overlapped communication is one compute segment) or communicates, and has three calls.
// Schedulers may delay backward_weight.

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "nn/batch.h"
#include "nn/context.h"
#include "nn/saved.h"

namespace viaduct {

class UnderWay;  // nn/exchange_segment.h

/// A small named set of operands: what segments pass to each other, and what a pipeline edge sends.
class TensorSet {
 public:
  using Named = std::pair<std::string, Operand>;

  TensorSet() = default;
  TensorSet(std::string_view name, Operand value) { set(name, std::move(value)); }
  /// A tensor. ShapeError if there is none of that name, or if it has another form.
  const Tensor& get(std::string_view name) const { return operand(name).tensor(); }
  /// In whatever form its producer wrote it. ShapeError if there is none of that name.
  const Operand& operand(std::string_view name) const;
  void set(std::string_view name, Operand value);
  bool has(std::string_view name) const;
  /// Nothing happens if there is none of that name.
  void remove(std::string_view name);
  /// True if it is empty and no communication is under way.
  bool empty() const { return operands_.empty() && under_way_ == nullptr; }
  /// All of them, in the order of being set.
  const std::vector<Named>& operands() const { return operands_; }

  /// A communication that the previous segment has begun and the next one ends; null: none.
  const std::shared_ptr<UnderWay>& under_way() const { return under_way_; }
  void set_under_way(std::shared_ptr<UnderWay> begun) { under_way_ = std::move(begun); }

 private:
  std::vector<Named> operands_;
  std::shared_ptr<UnderWay> under_way_;
};

/// A communication may be two segments, so that a schedule puts other work between its begin and
/// its end. In the forward the first one begins it, in the backward the second one.
enum class ExchangePart { none, first, second };

/// As the size of dim 0 or 1 of an edge's tensor: it follows from the data, and the tensor is in no
/// message between stages.
inline constexpr int64_t kAnyRows = -1;

/// A tensor of an edge (between two segments, or between pipeline stages), as declared by the
/// segment that reads it.
struct EdgeTensor {
  std::string name;  // in the TensorSet
  DType dtype = DType::f32;
  Shape shape;
  /// Its gradient, of the same dtype and shape, is sent back over the edge.
  bool needs_gradient = true;
  /// Messages between stages carry it, and its gradient, in their own format
  /// (model.pipeline_dtype); otherwise in `dtype`.
  bool message_format = false;
  /// Its elements are in host memory, where hosts read them, whatever the device.
  bool on_host = false;
  /// Layers far apart read it: one copy on the device serves them all, so it is not offloaded.
  bool stays = false;

  /// Whether its shape follows from the data.
  bool any_rows() const;
};
using Edge = std::vector<EdgeTensor>;

/// The residual stream [T, H]; as a gradient, that of the stream.
inline constexpr std::string_view kHidden = "hidden";
/// Its declaration, for `hidden` features: the rows of this rank, in the stream's format.
EdgeTensor stream_edge(const RankContext& context, const Batch& batch, int64_t hidden);

/// Tensors that a segment does not name bypass it, and so do their gradients: `in`, `out` and their
/// gradients hold only what it names. The walk (src/model/segment_walk.h) joins them with the rest
/// and checks them.
class Segment {
 public:
  virtual ~Segment() = default;
  /// What the forward reads and consumes: a tensor that later segments also read must be an output
  /// as well.
  virtual Edge inputs(const RankContext& context, const Batch& batch) const = 0;
  /// Names of what the forward returns.
  virtual std::vector<std::string_view> outputs() const = 0;
  /// Whether the forward of this batch makes an output: one that is only passed on is missing where
  /// it was not handed in.
  virtual bool makes(std::string_view output, const Batch& batch) const {
    static_cast<void>(output), static_cast<void>(batch);
    return true;
  }
  /// Names of inputs that the forward reads only to make outputs. Without `saved.output_is_read()`
  /// it gets none of them.
  virtual std::vector<std::string_view> read_for_outputs() const { return {}; }
  /// out from in; keeps in `saved` what the backward reads. Outputs for which
  /// `saved.output_is_read` is false may be left out, and any work that only makes them.
  virtual TensorSet forward(RankContext& context, const Batch& batch, const TensorSet& in,
                            SavedStore& saved) = 0;
  /// d_in (of the inputs that need gradients) from d_out; stores in `saved` what backward_weight
  /// reads; gradients of norms, biases and scales accumulate here.
  virtual TensorSet backward_input(RankContext& context, const Batch& batch, const TensorSet& d_out,
                                   SavedStore& saved) = 0;
  /// Gradients of GEMM and embedding weights.
  virtual void backward_weight(RankContext& context, const Batch& batch, SavedStore& saved) = 0;
  /// Both halves at once. A segment may fuse them in one loop instead of going through the saved
  /// store.
  virtual TensorSet backward(RankContext& context, const Batch& batch, const TensorSet& d_out,
                             SavedStore& saved);
  /// Its parameters in the order of first use in the forward.
  virtual std::vector<const Parameter*> parameters() const = 0;
  /// Those whose weights the input half of the backward reads; the weight half reads none.
  virtual std::vector<const Parameter*> read_backward() const { return parameters(); }
  virtual std::string_view name() const = 0;
  virtual ExchangePart exchange_part() const { return ExchangePart::none; }
};

/// From the residual stream to the residual stream, of `features()` features.
class StreamSegment : public Segment {
 public:
  Edge inputs(const RankContext& context, const Batch& batch) const override {
    return {stream_edge(context, batch, features())};
  }
  std::vector<std::string_view> outputs() const override { return {kHidden}; }

 protected:
  virtual int64_t features() const = 0;
};

struct Layer {
  std::string path;  // "embedding", "blocks.3", "head"
  std::vector<std::unique_ptr<Segment>> segments;
  /// Global number of the transformer block, those of an encoder behind all others; −1: it is none.
  int64_t block = -1;
  /// Of an encoder: its segments get the rows of the encoder as their batch.
  bool of_encoder = false;
  int64_t encoder_block = -1;  // number of its transformer block in the encoder; −1: it is none
  /// Left out of forwards without a backward: its result is only for its own loss.
  bool training_only = false;
  int first_of_experts = -1;  // of its segments, the experts' are from here to the end; −1: none

  bool in_experts(const Segment& segment) const;
  /// What its segments get of a micro-batch: the batch, or its encoder's rows.
  const Batch& rows_of(const Batch& batch) const;
};

}  // namespace viaduct
