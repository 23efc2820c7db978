#include "train/check_resume.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/error.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/units.h"
#include "checkpoint/parameter_io.h"
#include "config/problems.h"
#include "run/resume_rules.h"
#include "run/run_length.h"
#include "train/same_adapters.h"
#include "train/stored_config.h"
#include "train/train_state.h"

namespace viaduct {
namespace {

constexpr std::string_view kFurtherLayers = "model.mtp_num_layers", kRowLength = "model.seq_length",
                           kPackedSize = "dataset.packed_sequence_size";

class Changes {
 public:
  /// `misfit`: why the checkpoint cannot be read into the model of the run, or into its optimizer's
  /// state as well; "" if it can.
  Changes(const std::vector<std::string>& allowed, std::string where,
          FunctionRef<std::string(bool with_states)> misfit)
      : allowed_(allowed), where_(std::move(where)), misfit_(misfit) {}

  /// All differences that were noted.
  const std::vector<std::string>& all() const { return all_; }
  void note(std::string_view name, const std::string& difference) {
    constexpr std::string_view kExecution[] = {
        "dist.", "checkpoint.", "logger.", "profiling.", "env_vars.", "memory.", "comm_overlap."};
    const bool execution = std::ranges::any_of(
        kExecution, [&](std::string_view section) { return name.starts_with(section); });
    if (!execution) all_.push_back(fmt::format("{}: {}", name, difference));
  }

  /// `difference`: the old and the new value.
  void add(std::string_view name, const std::string& difference) {
    const ResumeRule rule = resume_rule(schema_, name).value_or(resume::free);
    if (rule.change == ResumeChange::free) return;
    std::string line = fmt::format("{}: {}: {}", name, difference, rule.effect);
    if (rule.change != ResumeChange::refused || is_allowed(name)) return warnings_.push_back(line);
    refuse(name, std::move(line));
    other_shapes_ |= rule.other_shapes;
  }

  void warn(std::string line) { warnings_.push_back(std::move(line)); }

  std::string_view effect(std::string_view name) const {
    return resume_rule(schema_, name)->effect;
  }

  /// `line`: name, difference and effect. Refused even if it is allowed: it needs more than that.
  void refuse(std::string_view name, std::string line) {
    const bool listed = std::find(refused_.begin(), refused_.end(), name) != refused_.end();
    if (!is_allowed(name) && !listed) refused_.emplace_back(name);
    refusals_.push_back(std::move(line));
  }

  /// Throws for refused changes; otherwise warns about the rest.
  void finish() {
    Problems problems;
    for (const std::string& refusal : refusals_)
      problems.add("{} (the checkpoint is {}){}", refusal, where_,
                   &refusal == &refusals_.back() ? advice() : "");
    problems.throw_if_any();
    for (const std::string& warning : warnings_) log_warning("{}", warning);
  }

 private:
  bool is_allowed(std::string_view name) const {
    return std::find(allowed_.begin(), allowed_.end(), name) != allowed_.end();
  }

  /// What to do about all refusals together.
  std::string advice() const {
    if (refused_.empty()) return "";
    if (other_shapes_) return "; start anew with another checkpoint.save";
    // Tensors that further layers lack are begun anew by the setting that their refusal names.
    const bool lacks_layers = std::ranges::count(refused_, kFurtherLayers) > 0;
    if (const std::string misfit = misfit_(false); !misfit.empty() && !lacks_layers)
      return fmt::format(" ({}); start anew with another checkpoint.save", misfit);
    const bool new_state = !lacks_layers && !misfit_(true).empty();
    std::vector<std::string> names = allowed_;
    names.insert(names.end(), refused_.begin(), refused_.end());
    return fmt::format("; checkpoint.allow_changes=[{}]{}", fmt::join(names, ", "),
                       new_state ? " and checkpoint.load_optim=false continue anyway, with a new "
                                   "state of the optimizer"
                                 : " continues anyway");
  }

  RunConfig defaults_;
  const Schema schema_ = run_schema(defaults_);
  const std::vector<std::string>& allowed_;
  std::string where_;
  FunctionRef<std::string(bool)> misfit_;
  std::vector<std::string> refused_, refusals_;  // names, and a line for each
  bool other_shapes_ = false;
  std::vector<std::string> warnings_, all_;
};

/// Layers of multi-token prediction that `now` has and the checkpoint of `then` lacks, where
/// missing tensors are an error.
bool lacks_further_layers(const RunConfig& then, const RunConfig& now) {
  const auto layers = [](const RunConfig& config) {
    return config.model.mtp_num_layers.value_or(std::nullopt).value_or(0);
  };
  const Strictness strictness = now.checkpoint.dist_ckpt_strictness;
  const bool begins_missing =
      strictness == Strictness::log_all || strictness == Strictness::log_unexpected;
  return layers(now) > layers(then) && !begins_missing;
}

/// The size of packs is the length of rows: the user changed one of them, and rows of the same
/// length may be packed or not.
void compare_packs(const RunConfig& then, const RunConfig& now, const std::string& difference,
                   Changes& changes) {
  const int64_t before = then.model.seq_length.value_or(0), here = now.model.seq_length.value_or(0);
  if (before == here) {
    changes.warn(fmt::format("{}: {}: {}", kPackedSize, difference, changes.effect(kPackedSize)));
    return;
  }
  const bool both = then.dataset.packing.packed_sequence_size.has_value() &&
                    now.dataset.packing.packed_sequence_size.has_value();
  changes.add(
      kPackedSize,
      both ? difference : fmt::format("{} (rows of {} tokens, were {})", difference, here, before));
}

bool holds(const CheckpointReader& checkpoint, const std::string& name) {
  const auto& files = checkpoint.files();
  return std::any_of(files.begin(), files.end(),
                     [&](const StoredFile& file) { return file.name == name; });
}

/// The order of the rows follows from the length of the run and its batches.
void compare_order(const RunConfig& then, const RunConfig& now, const CheckpointReader& checkpoint,
                   SameOrder same_order, int64_t rows, Changes& changes) {
  const TrainState state = train_state_from_json(checkpoint.state(), checkpoint.where());
  const int64_t rows_then = state.data_rows > 0 ? state.data_rows : training_rows(then);
  const int64_t batch_then = batch_schedule(then).full();
  if (same_order(rows_then, batch_then)) return;
  const auto add = [&](std::string_view name, int64_t before, int64_t here) {
    changes.add(name, fmt::format("was {}, is {} (the run reads {} of data, was {})", before, here,
                                  counted(rows, "row"), rows_then));
  };
  if (now.train.train_samples && then.train.train_samples)
    return add(kRunLengthInSamples, *then.train.train_samples, *now.train.train_samples);
  if (then.train.train_iters != now.train.train_iters)
    return add(kRunLength, then.train.train_iters, now.train.train_iters);
  changes.warn(fmt::format("train.global_batch_size: the run reads {} of data, was {}: {}",
                           counted(rows, "row"), rows_then, changes.effect(kRunLength)));
}

/// Whether the files of peft.adapter say it in both runs: the checkpoint's are compared with them
/// (train/base_model.h). They say the kind as well, which a configuration may repeat.
bool both_from_files(const Field& field, const RunConfig& then, const RunConfig& now) {
  if (!then.peft.adapter || !now.peft.adapter) return false;
  return field.full_name() == "peft.scheme" || field.idle_reason() == kSaidByAdapter;
}

void compare_settings(const RunConfig& config, const ModelConfig& model,
                      const CheckpointReader& checkpoint, SameOrder same_order, int64_t rows,
                      Changes& changes) {
  if (!holds(checkpoint, "config.yaml")) return;
  RunConfig then, now = config;
  const Schema old_schema = run_schema(then), schema = run_schema(now);
  std::vector<std::string> unread;
  const ConfigOutcome said =
      read_stored_config(old_schema, checkpoint.folder() / "config.yaml", unread);
  for (const std::string& line : unread)
    changes.warn(fmt::format("{}: {}", checkpoint.folder().string(), line));
  const std::set<std::string> same = same_adapter_fields(then, now, model);
  for (const FieldGroup& group : schema.groups()) {
    for (const Field& field : group.fields()) {
      const std::string name = field.full_name();
      if (!field.current || !said.is_given(name)) continue;
      const Value before = old_schema.find(name)->current(), current = field.current();
      if (same_value(before, current) || both_from_files(field, then, now) || same.contains(name))
        continue;
      const std::string difference =
          fmt::format("was {}, is {}", to_flow_yaml(before), to_flow_yaml(current));
      changes.note(name, difference);
      // They are reported together, with the rows that follow from them.
      if (name == kRunLength || name == kRunLengthInSamples) continue;
      const bool other_packs =
          then.dataset.packing.packed_sequence_size != now.dataset.packing.packed_sequence_size;
      if (name == kRowLength && other_packs) continue;  // follows from the size of packs
      if (name == kPackedSize) {
        compare_packs(then, now, difference, changes);
        continue;
      }
      if (name == kFurtherLayers && lacks_further_layers(then, now)) {
        changes.refuse(name,
                       fmt::format("{}: {}: the checkpoint has no weights of the new layers; "
                                   "checkpoint.dist_ckpt_strictness=log_unexpected begins them as "
                                   "in a new run",
                                   name, difference));
        continue;
      }
      changes.add(name, difference);
    }
  }
  compare_order(then, now, checkpoint, same_order, rows, changes);
}

void compare_data(const std::vector<DatasetFingerprint>& data, const CheckpointReader& checkpoint,
                  Changes& changes) {
  if (!holds(checkpoint, kDataFile)) return;
  const auto path = checkpoint.folder() / kDataFile;
  for (const std::string& change :
       changed_data(fingerprints_from_json(read_file(path), path.string()), data))
    changes.add(kDatasetContent, change);
}

void compare_tokenizer(const std::filesystem::path& folder, const CheckpointReader& checkpoint,
                       Changes& changes) {
  if (folder.empty()) return;
  const auto texts = model_side_texts(folder);
  for (const StoredFile& stored : checkpoint.files()) {
    const auto at = texts.find(stored.name);
    if (at != texts.end() && is_tokenizer_file(stored.name) &&
        stored.checksum != hash64(at->second))
      changes.add(kTokenizerContent, fmt::format("{} is not the file that the checkpoint holds",
                                                 (folder / stored.name).string()));
  }
}

}  // namespace

std::vector<std::string> check_resume(const RunSetup& setup,
                                      const std::vector<DatasetFingerprint>& data,
                                      const CheckpointReader& checkpoint, SameOrder same_order,
                                      int64_t rows, const std::vector<TensorKind>& states) {
  const auto misfit = [&](bool with_states) -> std::string {
    try {
      const Strictness given = setup.config.checkpoint.dist_ckpt_strictness;
      // What is found only when it is read is known here.
      const bool later = given == Strictness::assume_ok_unexpected;
      std::vector<TensorKind> kinds{{""}};
      if (with_states) kinds.insert(kinds.end(), states.begin(), states.end());
      check_fit(tensor_fit(setup.model, checkpoint, kinds, setup.config.peft.resolved, false),
                "the checkpoint", later ? Strictness::raise_unexpected : given);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  Changes changes(setup.config.checkpoint.allow_changes, checkpoint.where(), misfit);
  compare_settings(setup.config, setup.model, checkpoint, same_order, rows, changes);
  compare_data(data, checkpoint, changes);
  compare_tokenizer(setup.tokenizer_folder, checkpoint, changes);
  changes.finish();
  return changes.all();
}

}  // namespace viaduct
