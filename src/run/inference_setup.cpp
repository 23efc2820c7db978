#include "run/inference_setup.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "checkpoint/adapter_tokenizer.h"
#include "checkpoint/peft_folder.h"
#include "config/choice.h"
#include "config/problems.h"
#include "data/pair_dataset.h"
#include "data/split.h"
#include "data/tokenizer/vocabulary_hash.h"
#include "run/adapter_setup.h"
#include "run/encoder_support.h"
#include "run/packed_weights.h"
#include "run/parallel_settings.h"

namespace viaduct {
namespace {

// Enough tokens that reading the weights costs little compared with the GEMMs.
constexpr int64_t kMicroBatchTokens = 2048;
// Rows grow by this, so that ranks can cut them.
constexpr int64_t kRowMultiple = 256;

/// The overrides' values, before any checks.
struct Peek {
  RunConfig config;
  ConfigOutcome outcome;

  Peek(const RunConfig& defaults, const std::vector<std::string>& overrides) : config(defaults) {
    Problems said_later;
    outcome = read_config(run_schema(config), {{}, overrides}, said_later);
  }
};

int64_t row_length(const InferenceRequest& request, const RunConfig& given) {
  const auto& field = given.model.seq_length;
  VIADUCT_CHECK(
      ConfigError,
      !request.sequence_length || field.is_auto() || field.value() == *request.sequence_length,
      "--sequence-length: {}, but model.seq_length = {}", request.sequence_length.value(),
      field.value());
  const auto& packed = given.dataset.packing.packed_sequence_size;
  VIADUCT_CHECK(
      ConfigError, !request.sequence_length || !packed || *packed == *request.sequence_length,
      "--sequence-length: {}, but dataset.packed_sequence_size = {}; expected one of them",
      request.sequence_length.value(), packed.value());
  if (request.sequence_length) return *request.sequence_length;
  if (packed) return *packed;
  const ModelConfig model = read_model_config(resolve_model_folder(request.model));
  const int64_t usual = std::min(model.max_positions, kMicroBatchTokens);
  const int64_t longest = request.conversations ? request.conversations->longest : 0;
  return field.value_or(longest > usual ? row_that_holds(longest, model.max_positions) : usual);
}

/// What sets the length of rows, for messages (PackingConfig); "" for a field of section dataset.
std::string length_given_by(const InferenceRequest& request, const RunConfig& given) {
  if (request.sequence_length) return "--sequence-length ";
  if (given.dataset.packing.packed_sequence_size) return "";
  return given.model.seq_length.is_auto() ? "--sequence-length " : "model.seq_length=";
}

/// An adapter in the place of the model names the model under it.
InferenceRequest with_model_of_adapter(InferenceRequest request) {
  const auto base = model_under_adapter(request.model);
  if (!base) return request;
  VIADUCT_CHECK(ConfigError, !request.adapter && request.adapters.empty(),
                "--model {} is an adapter, and --adapter {} another; give the model under them",
                request.model.string(),
                request.adapter ? *request.adapter : request.adapters.front().folder.string());
  request.adapter = request.model.string();
  request.model = *base;
  return request;
}

/// Models side by side have the same tokens: rows that one of them lacks would be guessed.
void check_tokens(const NamedAdapter& adapter, const RunSetup& setup) {
  ModelConfig stored = setup.model;
  stored.vocabulary = setup.stored_vocabulary;
  const int64_t tokens = adapter_vocabulary(adapter.folder, stored);
  VIADUCT_CHECK(ConfigError, tokens == setup.model.vocabulary,
                "--adapter {}={}: an adapter of {} tokens beside a model of {}; expected the same, "
                "or --adapter {} alone (viaduct convert --add-tokens gives the model tokens)",
                adapter.name, adapter.folder.string(), tokens, setup.model.vocabulary,
                adapter.folder.string());
}

bool same_tokens(const Tokenizer& one, const Tokenizer& other) {
  const int64_t ids = one.vocab_size();
  return ids == other.vocab_size() &&
         vocabulary_hashes(one, ids).back() == vocabulary_hashes(other, ids).back();
}

/// An adapter without a tokenizer of its own was trained with the model's, which is not that of the
/// prompts where the adapter without a name has brought another.
void check_tokenizer_of_model(const NamedAdapter& adapter, const RunSetup& setup) {
  const std::filesystem::path& model = setup.pretrained->path;
  const auto& unnamed = setup.config.peft.adapter;
  if (!unnamed || setup.config.tokenizer.tokenizer_model || !has_tokenizer(model)) return;
  if (!tokenizer_of_adapter(*unnamed, model)) return;
  if (tokenizer_of_adapter(adapter.folder, model)) return;  // the same files as the other's
  VIADUCT_CHECK(ConfigError, same_tokens(open_tokenizer(model), *setup.tokenizer),
                "--adapter {}={}: has no tokenizer of its own, so it was trained with that of {}, "
                "but the prompts of all adapters here are cut by that of --adapter {}, {}; "
                "expected the same tokens, --adapter {} alone, or tokenizer.tokenizer_model=DIR "
                "for all of them",
                adapter.name, adapter.folder.string(), model.string(), *unnamed,
                setup.tokenizer_folder.string(), adapter.folder.string());
}

/// Prompts are cut before an adapter is chosen, by one tokenizer for all: one that was trained with
/// other tokens would read other words.
void check_tokenizer(const NamedAdapter& adapter, RunSetup& setup) {
  if (!setup.tokenizer) return;
  const auto own = tokenizer_of_adapter(adapter.folder, setup.tokenizer_folder);
  if (!own) return check_tokenizer_of_model(adapter, setup);
  const bool same = same_tokens(load_tokenizer(own->files(setup.hf_config)), *setup.tokenizer);
  const auto& named = setup.config.tokenizer.tokenizer_model;
  VIADUCT_CHECK(ConfigError, same || named,
                "--adapter {}={}: was trained with another tokenizer, {}, than that of {}, which "
                "cuts the prompts of all adapters here; expected the same tokens, --adapter {} "
                "alone, or tokenizer.tokenizer_model=DIR for all of them",
                adapter.name, adapter.folder.string(), own->text(), setup.tokenizer_folder.string(),
                adapter.folder.string());
  setup.notes.push_back(fmt::format(
      "--adapter {}={}: its {} differ from those of {}, which {} prompts of all "
      "adapters here",
      adapter.name, adapter.folder.string(),
      same ? "tokenizer settings or chat template " + own->text() : "tokens " + own->text(),
      setup.tokenizer_folder.string(), same ? "renders" : "cuts"));
}

/// The conversations as validation data of the run.
void take_conversations(const EvaluatedConversations& conversations, const Peek& peek, int64_t row,
                        bool packs, DatasetConfig& dataset) {
  dataset.blend_per_split.emplace(kSplitCount, std::nullopt);
  (*dataset.blend_per_split)[static_cast<size_t>(Split::valid)] = {conversations.prefix};
  // Packed rows give the same loss as rows of one conversation each, for less work.
  if (packs && !peek.outcome.is_given("dataset.packed_sequence_size"))
    dataset.packing.packed_sequence_size = row;
}

/// Rows that hold the pairs of input and answer: of the encoder, and returns that of the decoder,
/// which is `length` where it is given.
int64_t take_pairs(const InferenceRequest& request, const ModelConfig& model, const Peek& peek,
                   int64_t length, RunConfig& defaults) {
  std::optional<int32_t> end;
  if (!model.end_tokens.empty()) end = static_cast<int32_t>(model.end_tokens.front());
  const PairLengths longest = longest_of_pairs(request.conversations->prefix, end);
  defaults.model.encoder.encoder_seq_length.resolve(std::max<int64_t>(1, longest.input));
  const bool given = request.sequence_length || !peek.config.model.seq_length.is_auto();
  // Context ranks have two parts of a row each.
  const int64_t cp = peek.config.parallel.context_parallel_size, parts = cp > 1 ? 2 * cp : 1;
  return given ? length : (std::max<int64_t>(1, longest.answer) + parts - 1) / parts * parts;
}

}  // namespace

int64_t row_that_holds(int64_t longest, int64_t positions) {
  return std::min(positions, (longest + kRowMultiple - 1) / kRowMultiple * kRowMultiple);
}

RunSetup prepare_inference(const InferenceRequest& given) {
  const InferenceRequest request = with_model_of_adapter(given);
  RunConfig defaults;
  defaults.dist = request.dist;
  const ModelFolder folder = resolve_model_folder(request.model);
  const DType own = type_of_weights(folder);
  defaults.mixed_precision.recipe = own == DType::bf16  ? RecipeName::bf16_mixed
                                    : own == DType::f16 ? RecipeName::fp16_mixed
                                                        : RecipeName::fp32;
  defaults.train.skip_train = true;
  defaults.checkpoint.pretrained_checkpoint = request.model.string();
  defaults.peft.adapter = request.adapter;
  defaults.peft.prompts_choose = !request.adapters.empty();
  const Peek peek(defaults, request.overrides);
  const PeftConfig& peft = peek.config.peft;
  VIADUCT_CHECK(ConfigError, !peft.base_format || peft.any(),
                "peft.base_format: {}, but it is the format of frozen weights under an adapter, "
                "and none is given; expected --adapter DIR beside it, or no peft.base_format",
                choice_name_or(peft.base_format, "null"));
  int64_t length = row_length(request, peek.config);
  if (request.few_tokens) {
    // Experts must not get a token twice, so tensor ranks cut the tokens, with padding.
    const int64_t tp = peek.config.parallel.tensor_model_parallel_size;
    const bool cuts = tp > 1 && read_model_config(resolve_model_folder(request.model)).moe.any();
    defaults.parallel.sequence_parallel.resolve(cuts);
    defaults.tensor_overlap.tp_comm_overlap.resolve(false);
    // The rules of training require a number of rows that these divide.
    if (cuts && peek.config.model.seq_length.is_auto()) length = std::max(tp, length - length % tp);
  }
  bool pairs = false;
  if (request.conversations) {
    const ModelConfig stored = read_model_config(folder);
    pairs = stored.encoder.any();
    if (pairs) length = take_pairs(request, stored, peek, length, defaults);
    take_conversations(*request.conversations, peek, length, !pairs, defaults.dataset);
  }
  defaults.model.seq_length.resolve(length);
  defaults.dataset.packing.limits.length_given_by = length_given_by(request, peek.config);
  if (!peek.outcome.is_given("train.micro_batch_size")) {
    const int64_t of_row =
        pairs ? std::max(length, defaults.model.encoder.encoder_seq_length.value()) : length;
    defaults.train.micro_batch_size =
        std::max<int64_t>(1, kMicroBatchTokens / std::max<int64_t>(1, of_row));
  }
  // The batch is a micro-batch of each data-parallel rank, or a group of them if stages have
  // several chunks: the minimum that the rules of training allow.
  const PipelineConfig& pipeline = peek.config.pipeline;
  const int stages = peek.config.parallel.pipeline_model_parallel_size;
  const bool chunks = pipeline.virtual_stages() > 1 || pipeline.pipeline_model_parallel_layout;
  const int64_t micro_batches = chunks ? pipeline.group_size(stages) : 1;
  const int64_t rows = peek.outcome.is_given("train.micro_batch_size")
                           ? peek.config.train.micro_batch_rows()
                           : defaults.train.micro_batch_rows();
  defaults.train.global_batch_size =
      std::max<int64_t>(1, rows * micro_batches * data_parallel_size(peek.config));
  if (request.few_tokens) {
    // The weights are read for each token; a GEMM with few rows would pack them each time.
    const RunConfig& given = peek.config;
    defaults.packing.packed_weights.resolve(reads_tiles(given));
    VIADUCT_CHECK(ConfigError, given.parallel.context_parallel_size == 1,
                  "model.context_parallel_size: {}, but generation runs on 1 context rank: single "
                  "tokens cannot be cut",
                  given.parallel.context_parallel_size);
  }
  const bool shown = request.conversations && request.conversations->images;
  defaults.model.vision.read_images = shown || request.images;
  RunSetup setup = prepare_run(load_run_config({}, request.overrides, defaults),
                               request.few_tokens ? RunInput::texts : RunInput::rows);
  if (!request.adapters.empty()) {
    refuse_encoder(setup.model, "--adapter NAME=DIR");
    VIADUCT_CHECK(ConfigError, !setup.model.vision.any(),
                  "--adapter NAME=DIR: not implemented for a model that reads images; expected "
                  "model.read_images=false, which is its text model alone");
  }
  if (!given.adapter && request.adapter) {
    setup.notes.push_back(
        fmt::format("{} is an adapter on the model {}", *request.adapter, request.model.string()));
  }
  for (const NamedAdapter& named : request.adapters) {
    check_tokens(named, setup);
    check_tokenizer(named, setup);
    NamedAdapter& adapter = setup.adapters.emplace_back(named);
    adapter.settings = open_adapter(adapter.folder, setup.model).settings;
    adapter.settings.base_format = setup.config.peft.resolved.base_format;
    adapter.settings.blocks = setup.config.peft.resolved.blocks;
    note_trained_format(adapter.folder, adapter.settings, setup.notes);
  }
  if (own != DType::f32 && !peek.outcome.is_given("mixed_precision.recipe")) {
    setup.notes.push_back(
        fmt::format("computing in {}, the type of the weights in {} (mixed_precision=fp32 computes "
                    "in FP32)",
                    own == DType::bf16 ? "BF16" : "FP16", folder.path.string()));
  }
  return setup;
}

}  // namespace viaduct
