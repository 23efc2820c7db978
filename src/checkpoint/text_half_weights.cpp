#include "checkpoint/text_half_weights.h"

#include <map>

#include "base/error.h"
#include "base/json_reader.h"
#include "checkpoint/derived_source.h"
#include "model/text_half.h"

namespace viaduct {
namespace {

class TextHalfWeights final : public DerivedSource {
 public:
  explicit TextHalfWeights(std::unique_ptr<TensorSource> stored)
      : DerivedSource(std::move(stored)) {
    for (const TensorInfo& info : stored_->tensors()) {
      const auto name = text_half_name(info.name);
      if (!name) continue;
      const auto [at, fresh] = places_.try_emplace(*name, Place{infos_.size(), info.name});
      VIADUCT_CHECK(IoError, fresh, "{}: \"{}\" and \"{}\" are the same tensor of the text model",
                    stored_->where(), shown_name(at->second.stored), shown_name(info.name));
      infos_.push_back({*name, info.dtype, info.shape});
    }
  }

  const TensorInfo* find(const std::string& name) const override {
    const auto at = places_.find(name);
    return at == places_.end() ? nullptr : &infos_[at->second.index];
  }
  Tensor tensor(const std::string& name) const override {
    return stored_->tensor(stored_name_of(name));
  }
  void read_into(const std::string& name, const Piece& piece,
                 std::byte* destination) const override {
    stored_->read_into(stored_name_of(name), piece, destination);
  }

 private:
  struct Place {
    size_t index = 0;  // in infos_
    std::string stored;
  };

  const std::string& stored_name_of(const std::string& name) const {
    const auto at = places_.find(name);
    if (at == places_.end()) fail_missing(name);
    return at->second.stored;
  }

  std::map<std::string, Place> places_;
};

}  // namespace

std::unique_ptr<TensorSource> text_half_weights(std::unique_ptr<TensorSource> stored) {
  return std::make_unique<TextHalfWeights>(std::move(stored));
}

}  // namespace viaduct
