#pragma once
// The linear layers of a transformer block that may have an adapter.

#include <string>
#include <string_view>
#include <vector>

#include "model/adapter_modules.h"
#include "model/family.h"

namespace viaduct {

/// The name of up of a dense feed-forward, which without a gate may be another.
inline const std::string& dense_up_name(const TensorNames& names, bool gated) {
  return gated || names.plain_up.empty() ? names.up : names.plain_up;
}

/// Adds those of a block to a list. The arguments must outlive it.
class BlockModules {
 public:
  BlockModules(const ModelConfig& model, const TensorNames& names, int64_t layer,
               std::vector<AdaptableModule>& modules)
      : model_(model), names_(names), layer_(layer), modules_(modules) {}

  void add_attention() const;
  /// Of a decoder's block behind an encoder, whose tokens its keys and values are made of.
  void add_cross_attention() const;
  void add_feed_forward() const;
  /// What is before the block of a layer of multi-token prediction.
  void add_projection() const;

 private:
  void add(const std::string& pattern, std::string_view of, int64_t out, int64_t in) const;
  /// Of a weight that every tensor rank holds whole.
  void add_whole(const std::string& pattern, std::string_view of, int64_t out,
                 bool named_only = false) const;
  void add_mlp(const std::string& gate, const std::string& up, const std::string& down,
               int64_t features) const;
  void add_expert(int64_t expert) const;

  const ModelConfig& model_;
  const TensorNames& names_;
  int64_t layer_;
  std::vector<AdaptableModule>& modules_;
};

}  // namespace viaduct
