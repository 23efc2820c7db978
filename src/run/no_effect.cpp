#include "run/no_effect.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/error.h"
#include "run/no_effect_rules.h"
#include "run/overlap_fields.h"
#include "run/parallel_settings.h"

namespace viaduct {
namespace {

/// A configuration as if one of its fields had not been given. One schema serves all queries:
/// building one costs more than a query.
class Alternatives {
 public:
  explicit Alternatives(const RunConfig& config) : config_(config) {}

  /// Null if it is not valid. Valid until the next call.
  const RunConfig* without(const std::string& name) {
    restore();
    changed_ = true;
    // The value that a member has when its group is constructed is the field's default.
    const Field& field = *schema_.find(name);
    if (!field.assign(field.default_value)) return nullptr;
    try {
      resolve(other_);
    } catch (const ConfigError&) {
      return nullptr;
    }
    return &other_;
  }

  /// Why the field does nothing, by its own declaration; "" where it acts.
  std::string idle_reason(const std::string& name) {
    restore();
    return schema_.find(name)->idle_reason();
  }

  /// Whether the field has the same value without being given.
  bool is_default(const std::string& name) {
    if (without(name) == nullptr) return false;
    const Field& field = *schema_.find(name);
    const Value value = field.current();
    restore();
    return same_value(value, field.current());
  }

 private:
  void restore() {
    if (changed_) other_ = config_;
    changed_ = false;
  }

  const RunConfig& config_;
  RunConfig other_;
  bool changed_ = true;  // other_ is not config_
  Schema schema_ = run_schema(other_);
};

GemmOverlapTable overlap_table(const RunConfig& config, std::vector<std::string>* notes = nullptr) {
  Problems said;  // by validate
  return gemm_overlap(config, said, notes);
}

/// Whether the table of GEMMs is the same without this one of its fields, and why.
std::string same_overlap(const RunConfig& config, const std::string& name,
                         Alternatives& alternatives) {
  if (std::find(std::begin(kOverlapFields), std::end(kOverlapFields), name) ==
      std::end(kOverlapFields))
    return "";
  if (name.starts_with("comm_overlap.") && !tells_kernels(config) &&
      is_kernel_setting(std::string_view(name).substr(name.find('.') + 1)))
    return stated("dist.device", config.dist.device_kind()) + " has no kernels of NCCL";
  if (config.parallel.tensor_model_parallel_size == 1)
    return "model.tensor_model_parallel_size = 1";
  if (!config.tensor_overlap.tp_comm_overlap.value()) return "comm_overlap.tp_comm_overlap is off";
  const RunConfig* other = alternatives.without(name);
  return reason_if(other != nullptr && overlap_table(*other) == overlap_table(config),
                   "each GEMM that allows it does the same by default");
}

constexpr std::string_view kOfValues[] = {"train.exit_interval",
                                          "train.exit_duration_in_mins",
                                          "train.nan_loss_action",
                                          "train.max_skipped_in_a_row",
                                          "train.max_skipped_rate",
                                          "train.skip_train",
                                          "train.iterations_to_skip",
                                          "train.check_weight_hash_across_dp_replicas_interval",
                                          "train.exit_signals",
                                          "dist.threads_per_rank",
                                          "dist.distributed_timeout_minutes"};
constexpr std::string_view kInVirtualTime[] = {"checkpoint.save",
                                               "checkpoint.pretrained_checkpoint",
                                               "dataset.sequence_length",
                                               "logger.log_interval",
                                               "logger.log_throughput",
                                               "logger.tensorboard_dir",
                                               "logger.flops"};
/// They say how long the documents of a row are, where there are any.
constexpr std::string_view kOfRows[] = {"dataset.blend",
                                        "dataset.blend_per_split",
                                        "dataset.split",
                                        "dataset.packed_sequence_size",
                                        "dataset.packing_algorithm",
                                        "dataset.packing_split",
                                        "dataset.pad_seq_to_mult",
                                        "dataset.enable_offline_packing",
                                        "dataset.offline_packing_specs",
                                        "dataset.packed_sequence_specs"};
constexpr std::string_view kSectionsOfValues[] = {
    "checkpoint.", "dataset.", "logger.", "validation.", "profiling.", "rng.", "tensor_inspect."};

/// Fields for computing, reading data and saving, which have no effect in virtual time.
bool needs_values(const std::string& name) {
  const auto is = [&](std::string_view other) { return name == other; };
  if (std::any_of(std::begin(kInVirtualTime), std::end(kInVirtualTime), is)) return false;
  return std::any_of(std::begin(kOfValues), std::end(kOfValues), is) ||
         std::any_of(std::begin(kSectionsOfValues), std::end(kSectionsOfValues),
                     [&](std::string_view section) { return name.starts_with(section); });
}

std::string reason_of(const RunConfig& config, const ConfigOutcome& outcome,
                      const std::string& name, Alternatives& alternatives) {
  if (name == "dist.cluster")
    return reason_if(!config.dist.simulated(),
                     stated("dist.device", config.dist.device_kind()) + ", not sim");
  const bool of_rows = config.dataset.packing.conversations &&
                       std::find(std::begin(kOfRows), std::end(kOfRows), name) != std::end(kOfRows);
  if (config.dist.simulated() && needs_values(name) && !of_rows)
    return "dist.device = sim: nothing is computed, read or saved";
  if (std::string reason = alternatives.idle_reason(name); !reason.empty()) return reason;
  for (const auto table : {experts_without_effect, precision_without_effect, layout_without_effect,
                           training_without_effect, data_without_effect, gpus_without_effect}) {
    for (const NoEffectRule& rule : table()) {
      if (std::find(rule.fields.begin(), rule.fields.end(), name) == rule.fields.end()) continue;
      if (std::string reason = rule.reason(config, outcome); !reason.empty()) return reason;
    }
  }
  return same_overlap(config, name, alternatives);
}

}  // namespace

std::vector<std::string> settings_without_effect(const RunConfig& config,
                                                 const ConfigOutcome& outcome) {
  std::vector<std::pair<std::string, std::vector<std::string>>> reasons;  // and their fields
  Alternatives alternatives(config);
  for (const auto& [name, value] : outcome.given) {
    const std::string reason = reason_of(config, outcome, name, alternatives);
    if (reason.empty() || alternatives.is_default(name)) continue;
    auto at = std::find_if(reasons.begin(), reasons.end(),
                           [&](const auto& known) { return known.first == reason; });
    if (at == reasons.end()) at = reasons.insert(at, {reason, {}});
    at->second.push_back(name);
  }
  std::vector<std::string> lines;
  for (const auto& [reason, names] : reasons) {
    lines.push_back(fmt::format("{} {} no effect here: {}", fmt::join(names, ", "),
                                names.size() == 1 ? "has" : "have", reason));
  }
  // Where nothing overlaps, the whole table has no effect.
  std::vector<std::string> of_gemms;
  if (overlap_table(config, &of_gemms) != GemmOverlapTable{})
    lines.insert(lines.end(), of_gemms.begin(), of_gemms.end());
  return lines;
}

}  // namespace viaduct
