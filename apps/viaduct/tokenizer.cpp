// viaduct tokenizer: text to ids and back on standard input and output, line by line; training.

#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <iostream>
#include <memory>

#include "base/error.h"
#include "base/json.h"
#include "base/json_reader.h"
#include "base/log.h"
#include "base/units.h"
#include "checkpoint/model_folder.h"
#include "data/tokenizer/tokenizer.h"
#include "data/tokenizer/train_bpe.h"
#include "existing_output.h"
#include "number_checks.h"
#include "subcommands.h"
#include "tokenizer_chat.h"

namespace viaduct::cli {
namespace {

using nlohmann::json;

struct Options {
  std::string tokenizer, special = "recognised", unknown_bytes = "drop", output, json_key = "text";
  bool json_lines = false, exact_bytes = false, add_special_tokens = false, overwrite = false;
  bool offsets = false, skip_special = false;
  std::vector<std::string> inputs;
  int32_t vocab_size = 0;
};

/// One line of standard input without its end; false at the end of the input.
bool read_line(std::string& line) {
  return static_cast<bool>(std::getline(std::cin, line));
}

void write_line(std::string_view line) {
  std::cout.write(line.data(), static_cast<std::streamsize>(line.size()));
  std::cout.put('\n');
}

void finish_output() {
  std::cout.flush();
  VIADUCT_CHECK(IoError, std::cout.good(), "cannot write to standard output");
}

json parse_line(const std::string& line, size_t number) {
  return parse_json<json>(line, fmt::format("standard input, line {}", number));
}

std::string parse_string(const std::string& line, size_t number) {
  const json value = parse_line(line, number);
  VIADUCT_CHECK(IoError, value.is_string(),
                "standard input, line {}: expected a JSON string, found {}", number,
                value.type_name());
  return value.get<std::string>();
}

std::vector<int32_t> parse_ids(const std::string& line, size_t number) {
  const json value = parse_line(line, number);
  VIADUCT_CHECK(IoError, value.is_array(),
                "standard input, line {}: expected a list of ids, found {}", number,
                value.type_name());
  std::vector<int32_t> ids;
  for (const json& entry : value) {
    const bool fits = entry.is_number_unsigned() && entry.get<uint64_t>() <= INT32_MAX;
    VIADUCT_CHECK(IoError, fits, "standard input, line {}: \"{}\" is not an id", number,
                  entry.dump());
    ids.push_back(entry.get<int32_t>());
  }
  return ids;
}

/// Position of a byte without a token.
std::string describe_unknown(const std::string& line, size_t number, uint8_t byte) {
  const size_t at = line.find(static_cast<char>(byte));
  return fmt::format(
      "standard input, line {}: the vocabulary has no token for byte 0x{:02X} {}", number, byte,
      at == std::string::npos ? "somewhere in its normal form" : fmt::format("at offset {}", at));
}

/// {"ids": [id, …], "offsets": [[begin, end], …]}
json with_offsets(const std::vector<int32_t>& ids, const std::vector<TokenSpan>& spans) {
  json offsets = json::array();
  for (const TokenSpan& span : spans) offsets.push_back({span.begin, span.end});
  return {{"ids", ids}, {"offsets", std::move(offsets)}};
}

int encode(const Options& options) {
  const Tokenizer tokenizer = open_tokenizer(options.tokenizer);
  const EncodeOptions how{options.special == "as-text", options.add_special_tokens,
                          options.exact_bytes};
  EncodeCache cache = tokenizer.make_cache();
  std::vector<int32_t> ids;
  std::vector<TokenSpan> spans;
  std::string line, first;
  int64_t unknown_bytes = 0;
  for (size_t number = 1; read_line(line); ++number) {
    ids.clear();
    spans.clear();
    if (options.json_lines) line = parse_string(line, number);
    const UnknownBytes unknown = options.offsets ? tokenizer.encode(line, how, cache, ids, spans)
                                                 : tokenizer.encode(line, how, cache, ids);
    if (unknown.count > 0) {
      if (first.empty()) first = describe_unknown(line, number, unknown.first);
      VIADUCT_CHECK(IoError, options.unknown_bytes != "refuse", "{}", first);
      unknown_bytes += unknown.count;
    }
    write_line((options.offsets ? with_offsets(ids, spans) : json(ids)).dump());
  }
  finish_output();
  if (unknown_bytes > 0) {
    log_warning("{} without a token in this vocabulary: {}; the first: {}",
                counted(unknown_bytes, "byte"), tokenizer.unknown_bytes_became(), first);
  }
  return 0;
}

int decode(const Options& options) {
  const Tokenizer tokenizer = open_tokenizer(options.tokenizer);
  std::string line;
  for (size_t number = 1; read_line(line); ++number) {
    std::vector<int32_t> ids = parse_ids(line, number);
    if (options.skip_special)
      std::erase_if(ids, [&](int32_t id) {
        return options.exact_bytes ? tokenizer.is_special(id) : tokenizer.is_left_out(id);
      });
    if (options.exact_bytes) {
      write_line(tokenizer.decode(ids));
    } else {
      // JSON in ASCII only: some readers treat U+2028 and the like as line ends.
      const std::string text = tokenizer.decode_text(ids);
      write_line(options.json_lines ? json(text).dump(-1, ' ', true) : text);
    }
  }
  finish_output();
  return 0;
}

int train(const Options& options) {
  const std::filesystem::path folder(options.output);
  check_new_output({folder / "tokenizer.json", folder / "tokenizer_config.json"},
                   options.overwrite);
  const TrainedBpe trained = train_bpe({options.inputs.begin(), options.inputs.end()},
                                       options.vocab_size, options.json_key);
  write_tokenizer(trained, options.output);
  const auto found = static_cast<int32_t>(trained.tokens.size());
  fmt::print("{} in {}\n", counted(found, "token"), options.output);
  if (trained.merges.empty()) log_warning("--input: no text to learn pairs of bytes from");
  if (found < options.vocab_size) {
    fmt::print("The text has no more pairs to merge: {} tokens were requested.\n",
               options.vocab_size);
  }
  return 0;
}

CLI::App* add_coder(CLI::App& parent, Options& options, const char* name, const char* what) {
  CLI::App* app = parent.add_subcommand(name, what);
  app->add_option(
         "--tokenizer", options.tokenizer,
         "Hugging Face folder, FILE.gguf, or folder with tokenizer.json, tokenizer.model, or "
         "vocab.json and merges.txt")
      ->required();
  app->add_option(
         "--special", options.special,
         "special tokens in the text to encode are recognised or plain text (decode writes "
         "their text in either case)")
      ->check(CLI::IsMember({"recognised", "as-text"}))
      ->capture_default_str();
  app->add_flag("--add-special-tokens", options.add_special_tokens,
                "encode: add the beginning or end tokens of the tokenizer's template");
  return app;
}

}  // namespace

Subcommand add_tokenizer(CLI::App& root) {
  CLI::App* app =
      root.add_subcommand("tokenizer", "Convert text to token ids and back; train a tokenizer");
  app->require_subcommand(1);
  app->footer(
      "Example:\n  echo 'Hello, world!' | viaduct tokenizer encode --tokenizer models/gpt2");
  const auto options = std::make_shared<Options>();

  CLI::App* encoder =
      add_coder(*app, *options, "encode", "Each line of standard input to a JSON array of ids");
  auto* strings =
      encoder->add_flag("--json", options->json_lines, "each input line is a JSON string");
  auto* raw = encoder
                  ->add_flag("--bytes", options->exact_bytes,
                             "bytes that are not UTF-8 become their own tokens, so that decode "
                             "--bytes gives them back; without it they become U+FFFD")
                  ->excludes(strings);
  encoder
      ->add_flag("--offsets", options->offsets,
                 "each output line is an object of the lists ids and offsets: which characters of "
                 "the line each id comes from, [begin, end)")
      ->excludes(raw);
  encoder
      ->add_option("--unknown-bytes", options->unknown_bytes,
                   "bytes that the vocabulary has no token for. drop: as Hugging Face's "
                   "tokenizers, the vocabulary's unknown token or nothing, with a count; refuse: "
                   "an error with the position of the first one")
      ->check(CLI::IsMember({"drop", "refuse"}))
      ->capture_default_str();
  encoder->footer(
      "Example:\n  echo 'Hello, world!' | viaduct tokenizer encode --tokenizer models/gpt2");

  CLI::App* decoder = add_coder(*app, *options, "decode",
                                "Each JSON array of ids on standard input to a line of text");
  auto* quoted =
      decoder->add_flag("--json", options->json_lines, "each output line is a JSON string");
  decoder
      ->add_flag("--bytes", options->exact_bytes,
                 "the exact bytes of the tokens; without it, bytes that are not UTF-8 (part of a "
                 "character) are U+FFFD")
      ->excludes(quoted);
  decoder->add_flag("--skip-special-tokens", options->skip_special,
                    "leave special tokens out of the text");
  decoder->footer(
      "Example:\n  echo '[15496,11,995,0]' | viaduct tokenizer decode --tokenizer models/gpt2");

  CLI::App* trainer =
      app->add_subcommand("train", "Train a byte-level BPE tokenizer on text files");
  trainer
      ->add_option("--input", options->inputs,
                   "text files or JSONL files (.jsonl, .ndjson, .json), also as .gz or .zst; - is "
                   "standard input")
      ->required();
  trainer
      ->add_option("--json-key", options->json_key,
                   "member of each line of JSONL that holds the text")
      ->capture_default_str();
  trainer->add_option("--vocab-size", options->vocab_size, "tokens, at least 257")->required();
  trainer->add_option("--output", options->output, "folder for tokenizer.json")
      ->check(new_path())
      ->required();
  add_overwrite(*trainer, options->overwrite);
  trainer->footer(
      "Example:\n  viaduct tokenizer train --input data/tinyshakespeare.txt --vocab-size 2048 "
      "--output "
      "runs/tokenizer");

  const Subcommand chat = add_tokenizer_chat(*app);

  return {app, [=] {
            if (chat.app->parsed()) return chat.run();
            if (encoder->parsed()) return encode(*options);
            if (decoder->parsed()) return decode(*options);
            return train(*options);
          }};
}

}  // namespace viaduct::cli
