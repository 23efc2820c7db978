#include "generation_options.h"

#include <algorithm>
#include <cctype>
#include <filesystem>

#include "base/error.h"
#include "generate/stop_text.h"
#include "number_checks.h"

namespace viaduct::cli {

OverrideScope generation_scope(std::string command) {
  const char* const encoder =
      "answers are made token by token, for which the encoder is on the decoder's first stage, "
      "with "
      "its tensor ranks; expected 0";
  return {std::move(command),
          {"dist",
           "mixed_precision",
           "model.account_for_embedding_in_pipeline_split",
           "model.account_for_loss_in_pipeline_split",
           "model.context_parallel_size",
           "model.expert_model_parallel_size",
           "model.expert_tensor_parallel_size",
           "model.make_vocab_size_divisible_by",
           "model.num_layers_in_first_pipeline_stage",
           "model.num_layers_in_last_pipeline_stage",
           "model.packed_weights",
           "model.pipeline_dtype",
           "model.pipeline_model_parallel_layout",
           "model.pipeline_model_parallel_size",
           "model.read_images",
           "model.sequence_parallel",
           "model.tensor_model_parallel_size",
           "model.virtual_pipeline_model_parallel_size",
           "peft.base_format",
           "tokenizer.tokenizer_model"},
          {{"model.encoder_pipeline_model_parallel_size", encoder},
           {"model.encoder_tensor_model_parallel_size", encoder}}};
}

void add_sampling(CLI::App& app, GivenSampling& sampling, uint64_t& seed,
                  const std::string& otherwise) {
  app.add_option("--temperature", sampling.temperature,
                 "Divides the logits; 0 takes the most likely token each time" + otherwise);
  app.add_option("--top-k", sampling.top_k, "Only the K most likely tokens; 0: all" + otherwise);
  app.add_option("--top-p", sampling.top_p,
                 "Only the most likely tokens whose probabilities sum to P" + otherwise);
  app.add_option("--repetition-penalty", sampling.repetition_penalty,
                 "Divides the positive logits of tokens in the prompt or the text so far, "
                 "multiplies the negative ones; 1: no penalty" +
                     otherwise);
  app.add_option("--seed", seed, "The same seed gives the same texts, in every layout and batch")
      ->check(not_negative())
      ->capture_default_str();
}

void add_talk_options(CLI::App& app, TalkOptions& options) {
  add_chat_options(app, options.chat);
  app.add_option("--user-control-tokens", options.user_control_tokens,
                 "as-text: control tokens that stand in messages are text, so that they cannot "
                 "forge a turn; by default they are recognised, as Hugging Face does")
      ->check(CLI::IsMember({"as-text"}));
  app.add_option("--adapter", options.adapters,
                 "Folder of an adapter, as PEFT or a run with adapters writes it; NAME=DIR (any "
                 "number of times): of the prompts that say \"adapter\": NAME")
      ->allow_extra_args(false)  // what follows is an override
      ->check(not_empty());
}

GivenAdapters given_adapters(const std::vector<std::string>& options) {
  GivenAdapters given;
  for (const std::string& option : options) {
    std::error_code ignored;
    const size_t equals = option.find('=');
    if (equals == std::string::npos || std::filesystem::exists(option, ignored)) {
      VIADUCT_CHECK(ConfigError, !given.folder,
                    "--adapter: {} and {}: prompts cannot say which; expected NAME=DIR for all but "
                    "one of them",
                    *given.folder, option);
      given.folder = option;
      continue;
    }
    NamedAdapter named{option.substr(0, equals), option.substr(equals + 1)};
    const auto fits = [](unsigned char c) {
      return std::isalnum(c) != 0 || c == '_' || c == '-' || c == '.';
    };
    VIADUCT_CHECK(
        ConfigError,
        !named.name.empty() && std::ranges::all_of(named.name, fits) && !named.folder.empty(),
        "--adapter {}: expected DIR, or NAME=DIR with a name of letters, digits, _, - "
        "and .",
        option);
    const bool twice = std::ranges::any_of(
        given.named, [&](const NamedAdapter& other) { return other.name == named.name; });
    VIADUCT_CHECK(ConfigError, !twice, "--adapter {}: {} names another adapter already", option,
                  named.name);
    given.named.push_back(std::move(named));
  }
  return given;
}

std::vector<std::string> adapter_names(const RunSetup& setup) {
  std::vector<std::string> names;
  for (const NamedAdapter& adapter : setup.adapters) names.push_back(adapter.name);
  return names;
}

namespace {

/// Null for a model that reads no images.
std::shared_ptr<const PromptImages> open_prompt_images(const RunSetup& setup,
                                                       const ChatRenderer& renderer,
                                                       const TemplateClock& clock) {
  const VisionConfig& vision = setup.model.vision;
  if (!vision.any()) return nullptr;
  const std::string folder = setup.tokenizer_files.where();
  auto tokens = image_tokens_of(setup.tokenizer_folder.string(), *setup.tokenizer);
  auto processor = ImageProcessor::load(folder);
  VIADUCT_CHECK(ConfigError, tokens && processor,
                "{}: expected the config.json of a model that takes images, and "
                "preprocessor_config.json or processor_config.json, beside the tokenizer",
                folder);
  VIADUCT_CHECK(ConfigError, tokens->id == vision.image_token && tokens->count == vision.rows(),
                "{}: {} tokens of id {} stand for a picture, and the model has {} of id {}", folder,
                tokens->count, tokens->id, vision.rows(), vision.image_token);
  return std::make_shared<const PromptImages>(
      ImagePlaces(*std::move(tokens), &renderer, {true, clock}), *std::move(processor));
}

}  // namespace

std::unique_ptr<const ChatPrompts> open_chat_prompts(const TalkOptions& options,
                                                     const RunSetup& setup) {
  ChatOptions chat = options.chat;
  chat.tokenizer = setup.tokenizer_folder.string();
  auto renderer = open_renderer(chat);
  VIADUCT_CHECK(
      ConfigError, renderer.has_value(),
      "{}: the model has no chat template: looked for chat_template.jinja, chat_template.json and "
      "\"chat_template\" in tokenizer_config.json (in a GGUF file tokenizer.chat_template); "
      "--template FILE gives one",
      chat.tokenizer);
  const TemplateClock clock = clock_of(chat);
  auto images = open_prompt_images(setup, *renderer, clock);
  return std::make_unique<const ChatPrompts>(
      *std::move(renderer), *setup.tokenizer,
      ChatPrompts::Settings{.clock = clock,
                            .control_tokens_as_text = options.user_control_tokens == "as-text",
                            .images = std::move(images)});
}

void add_images(CLI::App& app, std::vector<std::string>& images, const std::string& where) {
  app.add_option("--image", images,
                 "Picture (PNG or JPEG; any number of times) of " + where +
                     ", for a model that takes images; model.read_images=true for pictures that "
                     "messages name")
      ->allow_extra_args(false)  // what follows is an override
      ->check(not_empty());
}

void add_stops(CLI::App& app, std::vector<std::string>& stops, const std::string& what) {
  app.add_option("--stop", stops, "Strings that end " + what + "; they are not part of it");
}

namespace {

/// A word without a value behind --image FILE is meant as another file.
void check_images_repeated(const std::vector<std::string>& images,
                           const std::vector<std::string>& overrides) {
  if (images.empty()) return;
  for (const std::string& text : overrides) {
    VIADUCT_CHECK(ConfigError, text.find('=') != std::string::npos,
                  "'{}' is no override (section.field=value); --image takes one file and is "
                  "repeated: --image {} --image {}",
                  text, images.front(), text);
  }
}

}  // namespace

RunSetup open_generation(GenerationArguments& arguments, const std::string& command,
                         std::string_view inputs) {
  move_overrides(arguments.stops, arguments.inference.overrides);
  check_images_repeated(arguments.images, arguments.inference.overrides);
  generation_scope(command).check(arguments.inference.overrides);
  GivenAdapters adapters = given_adapters(arguments.talk.adapters);
  arguments.inference.adapter = std::move(adapters.folder);
  arguments.inference.adapters = std::move(adapters.named);
  arguments.inference.images = !arguments.images.empty();
  RunSetup setup = prepare_inference(arguments.inference);
  VIADUCT_CHECK(ConfigError, arguments.images.empty() || setup.model.vision.any(),
                "--image {}: {} reads no images (model.read_images, of models like LLaVA and "
                "Gemma 3)",
                arguments.images.front(), arguments.inference.model.string());
  VIADUCT_CHECK(ConfigError, setup.tokenizer.has_value(),
                "{}: no tokenizer files; {} need a tokenizer", setup.pretrained->path.string(),
                inputs);
  check_stop_strings(*setup.tokenizer, arguments.stops);
  return setup;
}

std::vector<int32_t> stop_tokens(const RunSetup& setup, const ChatPrompts* chat) {
  std::vector<int32_t> stops = viaduct::stop_tokens(*setup.tokenizer, setup.model);
  if (chat != nullptr && chat->end_of_turn()) stops.push_back(*chat->end_of_turn());
  return stops;
}

void move_overrides(std::vector<std::string>& texts, std::vector<std::string>& overrides) {
  const auto is_override = [](const std::string& text) {
    const std::string name = text.substr(0, text.find('='));
    const bool word = std::all_of(name.begin(), name.end(), [](unsigned char c) {
      return std::isalnum(c) != 0 || c == '_' || c == '.';
    });
    return name.size() < text.size() && word &&
           (name.find('.') != std::string::npos || name == "mixed_precision");
  };
  const auto text = std::stable_partition(texts.begin(), texts.end(), is_override);
  overrides.insert(overrides.end(), texts.begin(), text);
  texts.erase(texts.begin(), text);
}

}  // namespace viaduct::cli
