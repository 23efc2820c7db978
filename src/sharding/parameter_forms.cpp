// The forms of a parameter store's weights other than the canonical ones, and weights that are
// stored as codes.

#include <algorithm>

#include "base/error.h"
#include "ops/table.h"
#include "sharding/parameter_store.h"

namespace viaduct {

void ParameterStore::derive_weights(const OpContext& context, bool packed, DelayedScales* delayed) {
  VIADUCT_CHECK(
      ConfigError,
      !packed || parameters().empty() || reads_packed_weights(context.ops, recipe_.weight),
      "packed weights: products of {} read {} unpacked", context.ops.traits.name,
      dtype_name(recipe_.weight));
  std::vector<const Parameter*> derived;
  std::vector<std::vector<const Parameter*>> coded(chunks());
  for (const Parameter* parameter : parameters()) {
    if (parameter->stored) continue;
    const size_t chunk = entries_.bucket_of(*parameter).chunk;
    (entries_.stores_codes(*parameter) ? coded[chunk] : derived).push_back(parameter);
  }
  forms_.emplace(context, derived, recipe_, groups_, packed, settings_.with_gradients,
                 !shards_weights(), delayed);
  weights_->derive(context, *forms_);
  frozen_.emplace(context, parameters());
  if (std::ranges::any_of(coded, [](const auto& chunk) { return !chunk.empty(); }))
    codes_ = make_stored_codes(context, std::move(coded), recipe_, groups_, delayed);
}

void ParameterStore::write_codes(size_t chunks) {
  for (; codes_ && written_chunks_ < chunks; ++written_chunks_) {
    const auto runs = [&](size_t end) { return runs_.begin() + static_cast<std::ptrdiff_t>(end); };
    const size_t begin = written_chunks_ == 0 ? 0 : runs_end_[written_chunks_ - 1];
    codes_->write(written_chunks_, {runs(begin), runs(runs_end_[written_chunks_])});
  }
}

void ParameterStore::write_stored(bool (*wanted)(const Parameter&),
                                  FunctionRef<void(const ShardRun&)> fill) {
  for (const Parameter* parameter : parameters())
    if (parameter->stored && parameter->stored != BaseFormat::blocks && wanted(*parameter))
      frozen_.value().write(*parameter, entries_.at(*parameter).weight, fill);
}

void ParameterStore::write_blocks(FrozenWeights::ReadBlocks read) {
  for (const Parameter* parameter : parameters())
    if (parameter->stored == BaseFormat::blocks) frozen_.value().write_blocks(*parameter, read);
}

void ParameterStore::make_derived_weights() {
  if (!forms_) return;
  for (const Parameter* parameter : parameters())
    if (!parameter->stored) forms_->make(*parameter, weight(*parameter), generation_of(*parameter));
}

}  // namespace viaduct
