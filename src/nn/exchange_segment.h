#pragma once
// A communication as a segment with a begin and an end: one segment where nothing runs between the
// two, and two segments where a schedule runs another micro-batch there
// (pipeline/interleave_turns.h).

#include <memory>
#include <utility>
#include <vector>

#include "nn/segment.h"

namespace viaduct {

/// What the begin of an exchange passes to its end: the communication, and tensors.
class UnderWay {
 public:
  virtual ~UnderWay() = default;
};

/// A segment whose calls have two parts. Where these are two segments, each has a run of its own in
/// the saved store: `end_forward` keeps what `begin_backward` reads, and `begin_forward` what
/// `end_backward` reads.
class ExchangeSegment : public Segment {
 public:
  using Begun = std::shared_ptr<UnderWay>;

  virtual Begun begin_forward(RankContext& context, const Batch& batch, const TensorSet& in,
                              SavedStore& saved) = 0;
  virtual TensorSet end_forward(RankContext& context, const Batch& batch, UnderWay& begun,
                                SavedStore& saved) = 0;
  virtual Begun begin_backward(RankContext& context, const Batch& batch, const TensorSet& d_out,
                               SavedStore& saved) = 0;
  virtual TensorSet end_backward(RankContext& context, const Batch& batch, UnderWay& begun,
                                 SavedStore& saved) = 0;

  // Both parts, one after the other.

  TensorSet forward(RankContext& context, const Batch& batch, const TensorSet& in,
                    SavedStore& saved) final {
    return end_forward(context, batch, *begin_forward(context, batch, in, saved), saved);
  }
  TensorSet backward_input(RankContext& context, const Batch& batch, const TensorSet& d_out,
                           SavedStore& saved) final {
    return end_backward(context, batch, *begin_backward(context, batch, d_out, saved), saved);
  }
};

/// The exchange as two segments, the second one directly after the first. ShapeError if it has
/// parameters: their gradients would belong to neither.
std::vector<std::unique_ptr<Segment>> in_two_parts(std::unique_ptr<ExchangeSegment> exchange);

}  // namespace viaduct
