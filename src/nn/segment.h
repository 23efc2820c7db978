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

/// A small named set of operands: what goes from segment to segment, and what a pipeline edge
/// sends.
class TensorSet {
 public:
  TensorSet() = default;
  TensorSet(std::string_view name, Operand value) { set(name, std::move(value)); }
  /// A tensor. ShapeError if there is none of that name, or if it has another form.
  const Tensor& get(std::string_view name) const { return operand(name).tensor(); }
  /// In whatever form its producer wrote it. ShapeError if there is none of that name.
  const Operand& operand(std::string_view name) const;
  void set(std::string_view name, Operand value);
  bool empty() const { return operands_.empty(); }

 private:
  std::vector<std::pair<std::string, Operand>> operands_;
};

/// The residual stream [T, H]; as a gradient, that of the stream.
inline constexpr std::string_view kHidden = "hidden";

class Segment {
 public:
  virtual ~Segment() = default;
  /// out from in; keeps in `saved` what the backward reads.
  virtual TensorSet forward(RankContext& context, const Batch& batch, const TensorSet& in,
                            SavedStore& saved) = 0;
  /// d_in from d_out; leaves in `saved` what backward_weight reads; gradients of norms, biases and
  /// scales accumulate here.
  virtual TensorSet backward_input(RankContext& context, const Batch& batch, const TensorSet& d_out,
                                   SavedStore& saved) = 0;
  /// Gradients of GEMM and embedding weights.
  virtual void backward_weight(RankContext& context, const Batch& batch, SavedStore& saved) = 0;
  /// Both halves at once. A segment may do in one loop what else goes through the saved store.
  virtual TensorSet backward(RankContext& context, const Batch& batch, const TensorSet& d_out,
                             SavedStore& saved);
  /// Its parameters in the order of first use in the forward.
  virtual std::vector<const Parameter*> parameters() const = 0;
  virtual std::string_view name() const = 0;
};

struct Layer {
  std::string path;  // "embedding", "blocks.3", "head"
  std::vector<std::unique_ptr<Segment>> segments;
};

}  // namespace viaduct
