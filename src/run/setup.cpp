#include "run/setup.h"

#include <algorithm>
#include <cstdlib>
#include <iterator>

#include "base/error.h"
#include "base/file.h"
#include "base/hub_cache.h"
#include "base/log.h"
#include "base/units.h"
#include "checkpoint/extend_vocabulary.h"
#include "checkpoint/gguf_file.h"
#include "checkpoint/gguf_model.h"
#include "checkpoint/heed_weights.h"
#include "checkpoint/peft_folder.h"
#include "comm/domain_check.h"
#include "config/problems.h"
#include "data/document_ends.h"
#include "model/family.h"
#include "model/model_from_fields.h"
#include "model/text_half.h"
#include "ops/cpu/amx_problem.h"
#include "run/adapter_setup.h"
#include "run/attention_backend.h"
#include "run/check_name_patterns.h"
#include "run/encoder_support.h"
#include "run/grown_vocabulary.h"
#include "run/longrope_note.h"
#include "run/no_effect.h"
#include "run/nsys_command.h"
#include "run/packing_settings.h"
#include "run/parallel_settings.h"
#include "run/peft_export.h"
#include "run/resolved_run.h"
#include "run/rules/muon_boxes.h"
#include "run/sentinel_tokens.h"
#include "run/unusual_settings.h"
#include "run/vision_support.h"
#include "run/weights_fit.h"

namespace viaduct {
namespace {

// A model may allow more positions than are useful as a default length.
constexpr int64_t kDefaultSequenceLength = 2048;

/// The text of a config.json, given as a file, as the folder that holds it, or as a GGUF file.
std::pair<std::string, std::filesystem::path> read_config_json(const std::filesystem::path& given) {
  constexpr const char* kExpected = "a config.json of Hugging Face, its folder, or FILE.gguf";
  std::filesystem::path path = model_path("", given, kExpected);
  if (std::filesystem::is_directory(path)) {
    if (!std::filesystem::exists(path / "config.json")) refuse_adapter_as_model(path);
    path = model_path("", path / "config.json", kExpected);
  }
  if (is_gguf(path)) return {gguf_config_text(GgufFile(path)), path};
  return {read_file(path, 1 << 20), path};
}

void take_tokenizer(RunSetup& setup) {
  const auto& named = setup.config.tokenizer.tokenizer_model;
  if (named) {
    setup.tokenizer_folder = *named;
  } else if (take_adapter_tokenizer(setup)) {
    return;
  } else if (setup.pretrained && has_tokenizer(setup.pretrained->path)) {
    setup.tokenizer_folder = setup.pretrained->path;
  } else {
    return;
  }
  setup.tokenizer.emplace(open_tokenizer(setup.tokenizer_folder));
  setup.tokenizer_files = open_tokenizer_files(setup.tokenizer_folder);
}

/// Number of tokens of the tokenizer section: those of its files or of the tokenizer without files,
/// and the additional ones after them; nothing if the section is empty.
std::optional<int64_t> tokens_of(const RunSetup& setup) {
  const TokenizerConfig& config = setup.config.tokenizer;
  std::optional<int64_t> tokens;
  if (setup.tokenizer) {
    tokens = setup.tokenizer->vocab_size();
    VIADUCT_CHECK(ConfigError, !config.vocab_size || *config.vocab_size >= *tokens,
                  "tokenizer.vocab_size: {}, but the tokenizer {} has {} tokens",
                  config.vocab_size.value_or(0), setup.tokenizer_folder.string(), *tokens);
    if (config.vocab_size) tokens = config.vocab_size;
  } else if (config.vocab_size) {
    tokens = *config.vocab_size + 1;  // Megatron's null tokenizer: one extra, the end of documents
  }
  VIADUCT_CHECK(ConfigError, tokens || config.vocab_extra_ids == 0,
                "tokenizer.vocab_extra_ids: {} without a vocabulary to extend; give "
                "tokenizer.tokenizer_model or tokenizer.vocab_size",
                config.vocab_extra_ids);
  if (tokens) *tokens += config.vocab_extra_ids;
  return tokens;
}

/// The architecture that the configuration names, and the text that describes it.
std::pair<std::optional<ModelConfig>, std::string> open_architecture(RunSetup& setup) {
  std::filesystem::path folder;
  VisionFields& vision = setup.config.model.vision;
  if (setup.config.checkpoint.pretrained_checkpoint) {
    setup.pretrained = resolve_model_folder(*setup.config.checkpoint.pretrained_checkpoint);
    setup.pretrained->images = vision.layers();
    folder = setup.pretrained->path;
  } else if (setup.config.model.hf_config) {
    folder = *setup.config.model.hf_config;
  } else {
    return {};
  }
  auto [text, path] = read_config_json(folder);
  ModelConfig base = setup.pretrained ? read_model_config(*setup.pretrained)
                                      : read_hf_config(text, path.string(), vision.layers());
  if (auto half = text_half(text, path.string())) {
    vision.folder_takes_images = read_vision_config(text, path.string()).has_value();
    if (!base.vision.any()) text = std::move(half->config);
  }
  if (setup.pretrained) text = with_heeded_fields(text, base);
  setup.notes.insert(setup.notes.end(), base.notes.begin(), base.notes.end());
  return {std::move(base), std::move(text)};
}

/// Resolves the values that depend on architecture and tokenizer.
void take_opened(RunSetup& setup, const std::optional<ModelConfig>& base) {
  RunConfig& config = setup.config;
  if (!config.dataset.sequence_length.is_auto())
    config.model.seq_length.resolve(config.dataset.sequence_length.value());
  if (base) {
    const auto& adapter = config.peft.adapter;
    if (adapter && config.model.vocab_size.is_auto() && find_model(*adapter))
      config.model.vocab_size.resolve(adapter_vocabulary(*adapter, *base));
    take_architecture(config.model, *base);
    config.model.seq_length.resolve(std::min(base->max_positions, kDefaultSequenceLength));
  }
  if (const auto tokens = tokens_of(setup)) config.model.vocab_size.resolve(*tokens);
  // What the data were made with counts more than what a tokenizer would end them with.
  DatasetConfig& data = config.dataset;
  if (!data.eod_id && !data.mock && needs_document_ends(data) &&
      (data.blend || data.blend_per_split))
    data.eod_id = recorded_separator(data);
  if (setup.tokenizer) {
    const auto& eod = setup.tokenizer->special_ids().eod;
    if (eod && !config.dataset.eod_id) config.dataset.eod_id = *eod;
  } else if (config.tokenizer.vocab_size && !config.dataset.eod_id) {
    config.dataset.eod_id = *config.tokenizer.vocab_size;
  }
}

/// Has NCCL make sums in one order, where ranks use it.
void note_determinism(RunSetup& setup) {
  const DistConfig& dist = setup.config.dist;
  if (!setup.config.determinism.deterministic_mode || dist.ranks == 1 ||
      dist.distributed_backend != TensorTransport::nccl)
    return;
  Problems problems;
  for (std::string& line : set_deterministic(problems)) setup.notes.push_back(std::move(line));
  problems.throw_if_any();
}

/// How to have the run watched, if it waits for a profiler and there is none.
void note_profiler(RunSetup& setup) {
  const ProfilingConfig& profiling = setup.config.profiling;
  const bool waits = profiling.use_nsys_profiler && setup.config.dist.on_cuda();
  if (!waits || profiler_watches(::getenv)) return;
  setup.notes.push_back(
      "profiling.use_nsys_profiler: no profiler was attached when this process started, and so "
      "nothing is recorded; start it with " +
      nsys_command(profiling, program_of_process()));
}

/// What is notable in a run on its ranks.
void note_run(RunSetup& setup, const ResolvedRun& run, RunInput input) {
  if (const auto& domain = setup.config.dist.nvlink_domain_size) {
    for (const std::string& note : domain_notes(run.parallelism.mesh, *domain))
      setup.notes.push_back(note);
  }
  std::string note = waiting_gradients_note(run.layers.overlap, overlap_conditions(setup.config));
  if (!note.empty()) setup.notes.push_back(std::move(note));
  const bool longrope = setup.model.rotary.scaling == RopeScalingKind::longrope;
  if (input == RunInput::rows && longrope)
    note_longrope(setup.model.rotary, "rows of", run.positions, setup.notes);
}

/// Checks that model, tokenizer and data set agree; lists all problems at once.
void check_fit(const RunSetup& setup) {
  const RunConfig& config = setup.config;
  Problems problems;
  // Positions restart with each conversation of a row.
  const auto& longest = config.dataset.packing.limits.longest;
  if (setup.model.positions != PositionKind::relative &&
      longest.value_or(config.model.seq_length.value()) > setup.model.max_positions) {
    problems.add(
        "model.seq_length: {} is longer than the {} that the model allows "
        "(model.max_position_embeddings)",
        config.model.seq_length.value(), counted(setup.model.max_positions, "position"));
  }
  if (const auto tokens = tokens_of(setup); tokens && *tokens > setup.model.vocabulary) {
    problems.add(
        "tokenizer {}: its vocabulary of {} is larger than the model's of {}{}",
        setup.tokenizer_folder.string(), *tokens, setup.model.vocabulary,
        setup.pretrained
            ? fmt::format("; model.vocab_size={} gives the model rows for the others", *tokens)
            : "");
  }
  // A dry run needs no data set, but given settings must be valid.
  const DatasetConfig& data = config.dataset;
  if (data.mock || data.blend || data.blend_per_split) {
    for (const std::string& problem : dataset_config_problems(data)) problems.add_text(problem);
  }
  if (data.fim_rate > 0 && !setup.tokenizer)
    problems.add("dataset.fim_rate: {} needs a tokenizer (tokenizer.tokenizer_model)",
                 data.fim_rate);
  const ValidationConfig& validation = config.validation;
  if (validation.tasks && !setup.tokenizer)
    problems.add("validation.tasks: {} needs a tokenizer (tokenizer.tokenizer_model)",
                 *validation.tasks);
  if (validation.sample_prompts && !setup.tokenizer)
    problems.add("validation.sample_prompts: {} needs a tokenizer (tokenizer.tokenizer_model)",
                 *validation.sample_prompts);
  if (config.peft.any()) validate_muon_boxes(config, problems);  // adapters are resolved
  check_name_patterns(config, setup.model, problems);
  validate_vision(config, setup.model, problems);
  if (setup.model.vision.any() && setup.pretrained && !setup.new_rows.empty())
    problems.add(
        "model.vocab_size: {} is above the {} of {}, which is not implemented for a model that "
        "reads images; expected {}, or model.read_images=false for its text model alone",
        setup.model.vocabulary, setup.stored_vocabulary, setup.pretrained->path.string(),
        setup.stored_vocabulary);
  problems.throw_if_any();
}

/// Rows of rotary models may be longer than their positions if no conversation is.
void limit_conversations(RunSetup& setup) {
  RunConfig& config = setup.config;
  PackingConfig& packing = config.dataset.packing;
  const int64_t positions = setup.model.max_positions;
  packing.limits.positions = positions;
  packing.limits.row_multiple = layout_multiple(config);
  const bool packs = packing.conversations && !packing.plain && packing.packed_sequence_size &&
                     !packing.packing_split;
  if (!packs || config.model.seq_length.value() <= positions ||
      config.model.position_embedding_type.value() != PositionKind::rotary)
    return;
  packing.limits.longest = std::min(packing.limits.longest.value_or(positions), positions);
}

/// Why attention is not by cuDNN where auto would take it.
void note_attention(const RunConfig& config, bool on_this_gpu, std::vector<std::string>& notes) {
  const std::string reason = automatic_attention(config, on_this_gpu).reason;
  if (!reason.empty()) notes.push_back("model.attention_backend: auto is flash here: " + reason);
}

}  // namespace

RunSetup prepare_run(LoadedRunConfig loaded, RunInput input) {
  RunSetup setup{.config = std::move(loaded.config), .notes = loaded.outcome.notes};
  RunConfig& config = setup.config;
  VIADUCT_CHECK(ConfigError, !config.train.micro_batch_size.is_auto(),
                "train.micro_batch_size: auto is found by viaduct train (its --dry-run prints it); "
                "expected a number of rows");
  const auto [base, base_text] = open_architecture(setup);
  take_tokenizer(setup);
  take_opened(setup, base);
  if (config.dist.on_cuda()) {
    std::vector<std::string> lines = config.dist.environment_notes;
    if (lines.empty()) lines = set_environment(config.environment);
    std::ranges::move(lines, std::back_inserter(setup.notes));
    note_determinism(setup);
  }
  const bool chooses = config.model.attention_backend.is_auto();
  const bool on_this_gpu = uses_this_gpu(config);
  resolve(config);
  if (chooses) note_attention(config, on_this_gpu, setup.notes);
  setup.model = to_model_config(config.model, base ? *base : ModelConfig{});
  if (setup.pretrained) {
    check_rotary_order(*base, setup.model);
    check_head(*base, setup.model);
  }
  for (std::string& note : resolve_adapters(config, setup.model))
    setup.notes.push_back(std::move(note));
  // What stays in the blocks of its file has no tiles.
  if (config.peft.resolved.base_format && !config.peft.base_format &&
      !loaded.outcome.is_given("model.packed_weights"))
    config.packing.packed_weights = false;
  if (!base && setup.tokenizer) {
    const SpecialIds& special = setup.tokenizer->special_ids();
    setup.model.end_tokens.assign(special.stop.begin(), special.stop.end());
    if (setup.model.end_tokens.empty() && special.eod) setup.model.end_tokens = {*special.eod};
    setup.model.begin_token = special.bos.value_or(-1);
  }
  config.dataset.pairs = pair_settings(setup.model);
  if (config.dataset.pairs) {
    config.dataset.pairs->sentinels =
        sentinel_tokens(setup.tokenizer ? &*setup.tokenizer : nullptr,
                        config.tokenizer.vocab_extra_ids, tokens_of(setup));
  }
  config.dataset.images = image_rows(setup.model);
  if (setup.pretrained) take_new_rows(setup, base->vocabulary);
  limit_conversations(setup);
  check_fit(setup);
  if (!config.dataset.pairs) setup.conversations = conversation_figures(config.dataset);
  if (!amx_problem().empty() && !loaded.outcome.is_given("dist.cpu_isa"))
    log_warning("{}; dist.cpu_isa = {}", amx_problem(), cpu_isa_name(config.dist.cpu_isa.value()));
  if (setup.model.moe.any() && setup.model.moe.random_logits) {
    log_warning(
        "model.moe_router_force_load_balancing = true: experts are chosen at random, and the model "
        "does not learn to route. This is only for benchmarks");
  }
  for (std::string& line : settings_without_effect(config, loaded.outcome))
    setup.notes.push_back(std::move(line));
  setup.warnings = unusual_settings(config);
  for (std::string& line : peft_export_warnings(config, setup.model))
    setup.warnings.push_back(std::move(line));
  for (const auto& [name, value] : loaded.outcome.given) setup.given.push_back(name);
  note_profiler(setup);
  note_run(setup, resolve_run(config, setup.model), input);
  // The original file, unless overrides changed the model.
  setup.hf_config = write_hf_config(setup.model);
  if (base) {
    ModelConfig same = *base;
    same.vocabulary = setup.model.vocabulary;
    const bool other_tables = same.vocabulary != base->vocabulary;
    if (setup.hf_config == write_hf_config(same) && !(other_tables && same.vision.any())) {
      setup.hf_config = other_tables ? with_vocabulary(base_text, same.vocabulary) : base_text;
    } else if (setup.pretrained && setup.new_rows.empty()) {
      check_weights_fit(setup, *base);
    }
  }
  return setup;
}

DataSetup prepare_data(RunConfig config) {
  RunSetup setup{.config = std::move(config)};
  const auto [base, text] = open_architecture(setup);
  take_tokenizer(setup);
  take_opened(setup, base);
  DataSetup data{std::move(setup.config.dataset), {}, std::move(setup.tokenizer)};
  const ModelFields& model = setup.config.model;
  if (!model.seq_length.is_auto()) data.dataset.sequence_length.resolve(model.seq_length.value());
  if (!model.vocab_size.is_auto()) data.vocabulary_size = model.vocab_size.value();
  return data;
}

}  // namespace viaduct
