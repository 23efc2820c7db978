#pragma once
// A layout: how a run is cut over the ranks of a cluster. The search compares layouts; all other
// fields of a configuration stay as given, except those of its variant.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace viaduct {

/// Which activations are recomputed in the backward. `given`: as the configuration says.
enum class Recompute { none, selective, full, given };
inline constexpr int kRecomputes = 4;

/// What a data-parallel rank keeps a shard of: nothing, the optimizer's state, or weights and
/// gradients as well. `given`: as the configuration says.
enum class Sharding { none, optimizer, full, given };

/// One combination of values of the fields that the user lets the search vary (plan/variants.h).
struct Variant {
  std::string name;                    // "optimizer.exp_avg_dtype=bf16"
  std::vector<std::string> overrides;  // section.field=value
};

struct Layout {
  int tp = 1, cp = 1, pp = 1;
  int vpp = 1;  // model chunks of a stage
  int dp = 1;   // replicas that take different rows
  int64_t micro_batch = 1;
  int64_t micro_batches = 1;  // of a step, on a rank
  Recompute recompute = Recompute::none;
  Sharding sharding = Sharding::optimizer;
  bool given_sequence_parallel = false;  // it stays as the configuration says
  int ep = 0, etp = 0;                   // expert parallel sizes; 0: there are no experts
  bool has_encoder = false;              // or a vision tower
  /// Its own stages, in front of the pp of the decoder, and their tensor ranks; 0: it is on the
  /// decoder's first stage.
  int encoder_stages = 0, encoder_tp = 0;
  /// Of stages that are not equal (plan/uneven_stages.h): the model's layers, and those of
  /// multi-token prediction. 0: stages are equal, or as the configuration describes them.
  int uneven_layers = 0, prediction_layers = 0;
  std::shared_ptr<const Variant> variant = {};  // null: nothing is varied

  int stages() const { return encoder_stages + pp; }
  /// Ranks of a replica that have different parts of the weights.
  int64_t weight_ranks() const {
    return int64_t{1} * encoder_tp * encoder_stages + int64_t{1} * tp * pp;
  }
  int64_t ranks() const { return int64_t{1} * dp * cp * weight_ranks(); }
  /// Ranks that share optimizer state, or all state.
  int shards() const { return dp * cp; }
  /// Ranks that have the same experts.
  int expert_shards() const { return ep == 0 ? shards() : tp * cp * dp / (ep * etp); }
  bool operator==(const Layout&) const = default;
};

/// Whether a micro-batch of a layer costs the same on a rank of both layouts, `dp` where weights
/// are sharded included. Of a layer of the decoder, wherever the encoder is.
bool same_layer(const Layout& a, const Layout& b);

/// The layout as fields of a training configuration, "section.field=value".
std::vector<std::string> overrides_of(const Layout& layout);

/// "tp 4 · cp 1 · pp 2 · vpp 2 · dp 8, micro-batch 1 × 16, optimizer state sharded, no recompute".
std::string describe(const Layout& layout);
std::string_view recompute_text(Recompute recompute);
std::string_view sharding_text(Sharding sharding);

/// The fields in which a differs from b, one text a field: "pp 2 → 4". Empty for equal layouts.
std::vector<std::string> differences(const Layout& a, const Layout& b);

}  // namespace viaduct
