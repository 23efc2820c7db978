#include "train/setup.h"

#include <algorithm>

#include "base/error.h"
#include "base/file.h"
#include "comm/domain_check.h"
#include "config/problems.h"
#include "model/family.h"
#include "model/model_from_fields.h"
#include "train/check_name_patterns.h"
#include "train/layout.h"
#include "train/parallel_settings.h"

namespace viaduct {
namespace {

// A model may allow more positions than anybody trains on by default.
constexpr int64_t kDefaultSequenceLength = 2048;

/// The text of a config.json, given as a file or as the folder that holds it.
std::pair<std::string, std::filesystem::path> read_config_json(std::filesystem::path path) {
  if (std::filesystem::is_directory(path)) path /= "config.json";
  return {read_file(path, 1 << 20), path};
}

void open_tokenizer(RunSetup& setup) {
  const auto& named = setup.config.tokenizer.tokenizer_model;
  if (named) {
    setup.tokenizer_folder = *named;
  } else if (setup.pretrained && !tokenizer_files(setup.pretrained->path).empty()) {
    setup.tokenizer_folder = setup.pretrained->path;
  } else {
    return;
  }
  setup.tokenizer.emplace(load_tokenizer(setup.tokenizer_folder));
}

void note_waiting_gradients(RunSetup& setup) {
  const OverlapConditions conditions = overlap_conditions(setup.config, setup.model.hidden);
  Problems said;  // by validation
  std::string note = waiting_gradients_note(
      resolve_gemm_overlap(setup.config.tensor_overlap, conditions, said), conditions);
  if (!note.empty()) setup.notes.push_back(std::move(note));
}

/// What model, tokenizer and data set must agree on, all problems at once.
void check_fit(const RunSetup& setup) {
  const RunConfig& config = setup.config;
  Problems problems;
  if (config.model.seq_length.value() > setup.model.max_positions) {
    problems.add("model.seq_length: {} is longer than the {} positions that the model allows",
                 config.model.seq_length.value(), setup.model.max_positions);
  }
  if (setup.tokenizer && setup.tokenizer->vocab_size() > setup.model.vocabulary) {
    problems.add("tokenizer {}: its vocabulary of {} is larger than the model's of {}",
                 setup.tokenizer_folder.string(), setup.tokenizer->vocab_size(),
                 setup.model.vocabulary);
  }
  // A dry run needs no data set; what is said about one must be right.
  const DatasetConfig& data = config.dataset;
  if (data.mock || data.blend || data.blend_per_split) {
    for (const std::string& problem : dataset_config_problems(data)) problems.add_text(problem);
  }
  check_name_patterns(config, setup.model, problems);
  problems.throw_if_any();
}

}  // namespace

RunSetup prepare_run(LoadedRunConfig loaded) {
  RunSetup setup{.config = std::move(loaded.config), .notes = std::move(loaded.outcome.notes)};
  RunConfig& config = setup.config;
  std::optional<ModelConfig> base;
  std::string base_text;
  if (config.checkpoint.pretrained_checkpoint) {
    setup.pretrained = resolve_model_folder(*config.checkpoint.pretrained_checkpoint);
    const auto [text, path] = read_config_json(setup.pretrained->path);
    base = read_hf_config(text, path.string());
    base_text = text;
  } else if (config.model.hf_config) {
    const auto [text, path] = read_config_json(*config.model.hf_config);
    base = read_hf_config(text, path.string());
    base_text = text;
  }
  open_tokenizer(setup);

  if (!config.dataset.sequence_length.is_auto())
    config.model.seq_length.resolve(config.dataset.sequence_length.value());
  if (base) {
    take_architecture(config.model, *base);
    config.model.seq_length.resolve(std::min(base->max_positions, kDefaultSequenceLength));
  }
  if (setup.tokenizer) {
    config.model.vocab_size.resolve(setup.tokenizer->vocab_size());
    const auto& eod = setup.tokenizer->special_ids().eod;
    if (eod && !config.dataset.eod_id) config.dataset.eod_id = *eod;
  }
  resolve(config);
  setup.model = to_model_config(config.model, base ? *base : ModelConfig{});
  if (!base && setup.tokenizer) {
    const SpecialIds& special = setup.tokenizer->special_ids();
    setup.model.end_tokens.assign(special.stop.begin(), special.stop.end());
    if (setup.model.end_tokens.empty() && special.eod) setup.model.end_tokens = {*special.eod};
    setup.model.begin_token = special.bos.value_or(-1);
  }
  check_fit(setup);
  if (const auto& domain = config.dist.nvlink_domain_size) {
    const Layout layout = make_layout(config, setup.model);
    for (const std::string& note : domain_notes(layout.mesh, *domain)) setup.notes.push_back(note);
  }
  note_waiting_gradients(setup);
  // The file as it was, unless overrides made another model of it.
  setup.hf_config = write_hf_config(setup.model);
  if (base && setup.hf_config == write_hf_config(*base)) setup.hf_config = base_text;
  return setup;
}

}  // namespace viaduct
