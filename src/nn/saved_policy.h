#pragma once
// What happens to the values that blocks keep for their backward: by unit and block, or for whole
// layers. Comes from the configuration, is the same on all ranks, and does not change during a run.

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace viaduct {

/// The units of a block: named pieces inside one segment that a policy acts on.
namespace unit {
inline constexpr std::string_view attn_norm = "attn_norm";    // norm before QKV
inline constexpr std::string_view qkv_linear = "qkv_linear";  // QKV, QK norms, rotary positions
/// Latent attention: heads from compressed vectors, rotary positions; qkv_linear ends before it.
inline constexpr std::string_view mla_up_proj = "mla_up_proj";
inline constexpr std::string_view core_attn = "core_attn";    // attention of heads
inline constexpr std::string_view attn_proj = "attn_proj";    // projection to the end of the branch
inline constexpr std::string_view mlp_norm = "mlp_norm";      // norm before the feed-forward
inline constexpr std::string_view mlp = "mlp";                // up and activation
inline constexpr std::string_view expert_fc1 = "expert_fc1";  // rows of experts
inline constexpr std::string_view moe_act = "moe_act";        // activation of experts, in mlp
/// The expert of all tokens: up and activation, with a gate the whole of it.
inline constexpr std::string_view shared_experts = "shared_experts";
}  // namespace unit

inline constexpr std::array kUnits{unit::attn_norm, unit::qkv_linear, unit::core_attn,
                                   unit::attn_proj, unit::mlp_norm,   unit::mlp};

namespace unit {
/// In addition, where layers are recomputed: the inputs that their groups keep.
inline constexpr std::string_view layer = "layer";
}  // namespace unit
/// The additional unit of latent attention.
inline constexpr std::array kLatentUnits{unit::mla_up_proj};
/// The additional units of experts.
inline constexpr std::array kExpertUnits{unit::expert_fc1, unit::moe_act, unit::shared_experts};

/// What a unit keeps stays until its last reader; or it is dropped, and the unit is recomputed
/// before the first reader in the backward; or it is copied to a second memory, and back ahead of
/// its reader (statistics of rows stay in both cases).
enum class UnitPolicy { keep, recompute, offload };

/// Consecutive blocks that are recomputed together: only the input of the first one is kept.
/// `apart`: each segment of the block is recomputed by itself, and its inputs are kept. `experts`:
/// only the segments of the one block's experts (none in a block without experts).
struct LayerGroup {
  int64_t first_block = 0, blocks = 1;
  bool apart = false;
  bool experts = false;
};

class SavedPolicy {
 public:
  /// Everything is kept. The setters are for the code that makes the policy.
  SavedPolicy() = default;

  /// ShapeError for a unit that blocks do not have, naming those that they have.
  void set(int64_t block, std::string_view unit, UnitPolicy policy);
  /// ShapeError for an empty group, one that shares a block with another, or several blocks whose
  /// segments, or experts, are recomputed separately.
  void recompute_layers(const LayerGroup& group);
  /// Each tensor rank keeps only its share of the residual stream that a group of layers keeps, and
  /// the backward gathers it. For streams that all tensor ranks have whole.
  void share_layer_inputs() { shares_layer_inputs_ = true; }
  /// Offloaded storages have at least this many elements; smaller ones stay.
  void offload_from(int64_t elements) { least_offloaded_ = elements; }

  UnitPolicy of(int64_t block, std::string_view unit) const;
  /// The group that the block is recomputed with; null: it is not recomputed as a whole.
  const LayerGroup* group_of(int64_t block) const;
  bool keeps_everything() const { return units_.empty() && groups_.empty(); }
  /// Whether any unit is offloaded.
  bool offloads() const;
  bool shares_layer_inputs() const { return shares_layer_inputs_; }
  int64_t least_offloaded() const { return least_offloaded_; }

 private:
  std::map<int64_t, std::map<std::string, UnitPolicy, std::less<>>> units_;  // not kept, by block
  std::vector<LayerGroup> groups_;
  std::map<int64_t, size_t> group_of_;  // by block
  bool shares_layer_inputs_ = false;
  int64_t least_offloaded_ = 0;  // elements
};

}  // namespace viaduct
