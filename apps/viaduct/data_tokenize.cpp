#include <fmt/ranges.h>
#include <CLI/CLI.hpp>
#include <memory>

#include "base/error.h"
#include "base/log.h"
#include "base/thread_pool.h"
#include "base/units.h"
#include "chat_options.h"
#include "checkpoint/model_folder.h"
#include "data.h"
#include "data/tokenize_files.h"
#include "data/tokenizer/tokenizer.h"
#include "existing_output.h"
#include "number_checks.h"
#include "progress_bar.h"

namespace viaduct::cli {
namespace {

struct Arguments {
  std::vector<std::string> inputs;
  std::string tokenizer, output, json_key = "text";
  std::string eod_token, unknown_bytes = "drop";
  bool all_jsonl = false, no_append_eod = false, overwrite = false;
  int workers = default_pool_threads(1);
};

/// "; its special tokens are …", or nothing.
std::string special_tokens(const Tokenizer& tokenizer) {
  constexpr size_t kShown = 8;
  std::vector<std::string> names;
  for (const AddedToken& token : tokenizer.added_tokens().tokens()) {
    if (token.special && names.size() <= kShown) names.push_back(token.content);
  }
  if (names.empty()) return "";
  if (names.size() > kShown) names.back() = "…";
  return fmt::format("; its special tokens are {}", fmt::join(names, ", "));
}

/// The token that stands for images in the folder's model; −1: none, or none that can be told.
int32_t image_token(const std::string& folder, const Tokenizer& tokenizer) {
  try {
    const auto tokens = image_tokens_of(folder, tokenizer);
    return tokens ? tokens->id : -1;
  } catch (const Error&) {
    return -1;  // texts need nothing of what is wrong there
  }
}

int run(const Arguments& arguments) {
  check_new_dataset(arguments.output, arguments.overwrite);
  const Tokenizer tokenizer = open_tokenizer(arguments.tokenizer);
  TokenizeSettings settings;
  settings.inputs.assign(arguments.inputs.begin(), arguments.inputs.end());
  settings.output = arguments.output;
  settings.json_key = arguments.json_key;
  settings.all_jsonl = arguments.all_jsonl;
  settings.workers = arguments.workers;
  settings.vocabulary = &tokenizer;
  settings.type = token_type_for_vocabulary(tokenizer.vocab_size());
  settings.image_token = image_token(arguments.tokenizer, tokenizer);
  settings.refuse_unknown_bytes = arguments.unknown_bytes == "refuse";
  if (!arguments.eod_token.empty()) {
    settings.eod = tokenizer.find(arguments.eod_token);
    VIADUCT_CHECK(ConfigError, settings.eod, "--eod-token: the tokenizer {} has no token \"{}\"{}",
                  arguments.tokenizer, arguments.eod_token, special_tokens(tokenizer));
  } else if (!arguments.no_append_eod) {
    settings.eod = tokenizer.special_ids().eod;
    VIADUCT_CHECK(ConfigError, settings.eod,
                  "the tokenizer {} has no end-of-text token; give one with --eod-token, or use "
                  "--no-append-eod{}",
                  arguments.tokenizer, special_tokens(tokenizer));
  }
  make_folder_of_dataset(arguments.output);

  TokenizeResult result;
  double seconds = 0;
  {
    ProgressBar bar;
    result = tokenize_files(settings, encode_function(tokenizer, settings.workers),
                            [&](int64_t done, int64_t total) { bar.show(done, total); });
    seconds = bar.elapsed();
  }
  fmt::print("{}.bin, {}.idx: {}, {} ({}) from {} in {}\n", arguments.output, arguments.output,
             counted(result.documents, "document"), counted(result.tokens, "token"),
             token_type_name(settings.type), format_bytes(result.bytes), format_seconds(seconds));
  const SpecialIds& special = tokenizer.special_ids();
  if (arguments.eod_token.empty() && settings.eod && special.eos && settings.eod != special.eos) {
    fmt::print(
        "documents end with {} ({}), the end of a text; eos_token, {} ({}), ends messages: "
        "--eod-token takes it\n",
        *tokenizer.token(*settings.eod), *settings.eod, *tokenizer.token(*special.eos),
        *special.eos);
  }
  if (result.bytes == 0) log_warning("--input: no text in the inputs");
  if (result.inner_separators > 0) {
    log_warning(
        "token {}, which ends documents, is in their text too, {}: training that stops at "
        "ends of documents (dataset.reset_attention_mask and others) stops there; --eod-token "
        "names another one",
        *settings.eod, counted(result.inner_separators, "time"));
  }
  if (result.image_texts > 0) {
    log_warning(
        "{} the token of images, {} ({}): training with images (model.read_images) refuses such a "
        "text; the first: {}",
        counted(result.image_texts, "document spells", "documents spell"),
        *tokenizer.token(settings.image_token), settings.image_token, result.first_image_text);
  }
  if (result.unknown_bytes > 0) {
    log_warning("{} without a token in this vocabulary: {}; the first: {}",
                counted(result.unknown_bytes, "byte"), tokenizer.unknown_bytes_became(),
                result.first_unknown);
  }
  return 0;
}

}  // namespace

Subcommand add_data_tokenize(CLI::App& data) {
  CLI::App* app =
      data.add_subcommand("tokenize", "Convert text or JSONL files to Megatron .bin/.idx");
  auto arguments = std::make_shared<Arguments>();
  app->add_option(
         "--input", arguments->inputs,
         "Text files (a document each) or JSONL files (.jsonl, .ndjson, .json; a document a line), "
         "also as .gz or .zst; - is standard input")
      ->required();
  app->add_option("--tokenizer", arguments->tokenizer, "Folder with tokenizer files, or FILE.gguf")
      ->required();
  app->add_option("--output", arguments->output, "Prefix of the files to write")
      ->check(new_path())
      ->required();
  add_overwrite(*app, arguments->overwrite);
  auto* key =
      app->add_option(
             "--json-key", arguments->json_key,
             "Member of each line's object that holds the text; given, all inputs are JSONL")
          ->capture_default_str();
  app->add_option("--workers", arguments->workers, "Threads; the output does not depend on them")
      ->check(CLI::Range(1, 4096))
      ->capture_default_str();
  auto* open = app->add_flag("--no-append-eod", arguments->no_append_eod,
                             "Do not end documents with the end-of-text token");
  app->add_option("--eod-token", arguments->eod_token,
                  "Token that ends documents, as in the vocabulary; by default the "
                  "tokenizer's end-of-text token")
      ->excludes(open);
  app->add_option("--unknown-bytes", arguments->unknown_bytes,
                  "Bytes that the vocabulary has no token for. drop: as Hugging Face's tokenizers, "
                  "the vocabulary's unknown token or nothing, with a count; refuse: an error that "
                  "gives the position of the first one")
      ->check(CLI::IsMember({"drop", "refuse"}))
      ->capture_default_str();
  app->footer(
      "Example:\n  viaduct data tokenize --input part1.jsonl part2.jsonl --tokenizer models/gpt2 "
      "--output data/web --workers 8\n  zcat part3.gz | viaduct data tokenize --input - --json-key "
      "text --tokenizer models/gpt2 --output data/more");
  return {app, [arguments, key] {
            arguments->all_jsonl = key->count() > 0;
            return run(*arguments);
          }};
}

}  // namespace viaduct::cli
