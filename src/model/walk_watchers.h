#pragma once
// Common hooks of a walk: the current segment, for the record; and the output of each layer, for
// `probe` and the search for a value that is not finite.

#include <functional>
#include <optional>

#include "model/segment_hooks.h"
#include "nn/encoder_rows.h"

namespace viaduct {

/// Opens a scope in the record for each segment, if one is attached.
class RecordSegments final : public SegmentHooks {
 public:
  void before(const SegmentEvent& event) override {
    StepRecord* record = event.context.ops.device.record();
    if (record == nullptr) return;
    scope_.emplace(record, ScopeKind::segment, event.layer.path, event.segment.name());
  }
  void after(const SegmentEvent&, const TensorSet&) override { scope_.reset(); }
  void failed(const SegmentEvent&) noexcept override { scope_.reset(); }

 private:
  std::optional<RecordScope> scope_;
};

/// Calls a function with "embed", "layer0", … and the residual stream [T, H] that leaves it in the
/// forward; of an encoder with "encoder.embed", "encoder.layer0", …, "encoder.final_norm".
class WatchLayers final : public SegmentHooks {
 public:
  using Function = std::function<void(const std::string& name, const Tensor& hidden)>;
  explicit WatchLayers(Function watch) : watch_(std::move(watch)) {}

  void after(const SegmentEvent& event, const TensorSet& out) override {
    if (event.work != SegmentWork::forward || !event.ends_layer()) return;
    const Layer& layer = event.layer;
    const std::string prefix = layer.of_encoder ? "encoder." : "";
    if (out.has(kHidden)) {
      const int64_t block = layer.of_encoder ? layer.encoder_block : layer.block;
      watch_(prefix + (block < 0 ? "embed" : "layer" + std::to_string(block)), out.get(kHidden));
    } else if (out.has(kEncoded) && layer.of_encoder) {
      watch_(prefix + "final_norm", out.get(kEncoded));
    }
  }

 private:
  Function watch_;
};

}  // namespace viaduct
