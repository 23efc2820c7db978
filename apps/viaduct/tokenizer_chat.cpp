// viaduct tokenizer chat: conversations on standard input to texts, ids and masks.

#include "tokenizer_chat.h"

#include <CLI/CLI.hpp>
#include <iostream>
#include <memory>

#include "base/error.h"
#include "base/json.h"
#include "chat_options.h"
#include "checkpoint/model_folder.h"
#include "conversation/chat_encoder.h"
#include "data/tokenizer/tokenizer.h"
#include "number_checks.h"
#include "standard_streams.h"

namespace viaduct::cli {
namespace {

using nlohmann::ordered_json;

struct Arguments {
  ChatOptions chat;
  std::string train_on;
};

/// What all lines share.
struct Setting {
  const ChatRenderer* renderer = nullptr;
  const Tokenizer* tokenizer = nullptr;  // may be null
  TemplateClock clock;
  std::optional<TrainOn> train_on;
};

bool generation_prompt(const TemplateMap& line) {
  const TemplateValue* value = line.find("add_generation_prompt");
  if (value == nullptr || value->is_none()) return false;
  VIADUCT_CHECK(IoError, value->is_bool(), "'add_generation_prompt' is neither true nor false");
  return value->as_bool();
}

void add_row(ordered_json& result, ConversationText text, ChatEncoder& encoder) {
  const ChatRow row = encoder.encode(std::move(text));
  result["ids"] = row.ids;
  result["mask"] = row.mask;
}

ordered_json answer(const std::string& text, const Setting& setting, ChatEncoder* encoder) {
  const TemplateValue line = TemplateValue::from_json(text, "the line");
  VIADUCT_CHECK(IoError, line.is_map(), "expected a JSON object");
  const ConversationReading reading{.checked = false};
  const Conversation conversation =
      parse_conversation(line.as_map(), form_of(line.as_map(), reading), reading);
  const RenderOptions options{generation_prompt(line.as_map()), setting.clock};
  ordered_json result;
  const AddedTokens* added = encoder ? &setting.tokenizer->added_tokens() : nullptr;
  const AnswerFinder finder(setting.renderer, added, options);
  if (encoder == nullptr) {
    // Without tokens there is no mask to find.
    result["text"] = finder.text(conversation);
    return result;
  }
  ConversationTexts texts;
  try {
    texts = finder.find(conversation, setting.train_on.value_or(default_train_on(conversation)));
  } catch (const InvalidConversation& error) {
    if (error.problem() != ConversationProblem::answer_not_found) throw;
    result["text"] = finder.text(conversation);
    result["ids"] = encoder->ids(result["text"].get_ref<const std::string&>());
    result["mask_error"] = error.what();
    return result;
  }
  result["text"] = texts.whole.text;
  add_row(result, std::move(texts.whole), *encoder);
  for (ConversationText& own : texts.own) {
    ordered_json row;
    row["text"] = own.text;
    add_row(row, std::move(own), *encoder);
    result["rows"].push_back(std::move(row));
  }
  return result;
}

int run(const Arguments& arguments) {
  const ChatOptions& chat = arguments.chat;
  VIADUCT_CHECK(ConfigError, !chat.tokenizer.empty() || !chat.chat_template.empty(),
                "give --tokenizer DIR, --template FILE, or both");
  const auto renderer = open_renderer(chat);
  VIADUCT_CHECK(ConfigError, renderer,
                "--tokenizer {}: no chat template (chat_template.jinja, or chat_template in "
                "tokenizer_config.json); give one with --template",
                chat.tokenizer);
  std::optional<Tokenizer> tokenizer;
  if (!chat.tokenizer.empty()) tokenizer.emplace(open_tokenizer(chat.tokenizer));
  Setting setting{&*renderer, tokenizer ? &*tokenizer : nullptr, clock_of(chat), std::nullopt};
  if (!arguments.train_on.empty()) {
    VIADUCT_CHECK(ConfigError, tokenizer,
                  "--train-on needs --tokenizer: without one there are no masks");
    setting.train_on = train_on_of(arguments.train_on);
  }
  std::optional<ChatEncoder> encoder;
  if (tokenizer) encoder.emplace(*tokenizer);
  int status = 0;
  for (std::string line; std::getline(std::cin, line);) {
    ordered_json result;
    try {
      result = answer(line, setting, encoder ? &*encoder : nullptr);
    } catch (const Error& error) {
      result = ordered_json{{"error", error.what()}};
      status = 1;
    }
    // ASCII only: some readers treat U+2028 and the like as line ends.
    std::cout << result.dump(-1, ' ', true, ordered_json::error_handler_t::replace) << '\n';
  }
  std::cout.flush();
  VIADUCT_CHECK(IoError, std::cout.good(), "cannot write to standard output");
  return status;
}

}  // namespace

Subcommand add_tokenizer_chat(CLI::App& tokenizer) {
  CLI::App* app = tokenizer.add_subcommand(
      "chat", "Conversations, one JSON object a line, to their text by the model's chat template");
  const auto arguments = std::make_shared<Arguments>();
  app->add_option("--tokenizer", arguments->chat.tokenizer,
                  "Hugging Face folder, FILE.gguf, or folder with tokenizer files: gives ids and "
                  "masks, and the template unless --template does")
      ->check(not_empty());
  add_chat_options(*app, arguments->chat);
  app->add_option("--special", arguments->chat.special,
                  "Special tokens as the template's variables, instead of the tokenizer's: "
                  "{\"bos_token\": \"<s>\"}")
      ->check(not_empty());
  app->add_option("--train-on", arguments->train_on,
                  "What the mask marks: every answer of the assistant, the last one, all but the "
                  "first token, or the completion of a prompt (assistant for messages, completion "
                  "for prompt and completion)")
      ->check(CLI::IsMember(train_on_names()));
  app->footer(
      "A line has messages, and may have tools, documents, add_generation_prompt and further "
      "variables of the template; other forms of chat files are read too. A line of output is "
      "{\"text\", \"ids\", \"mask\"}, with \"rows\" for answers that need a row of their own, or "
      "{\"error\"}; the exit status is 1 if there was one.\n"
      "Example:\n  echo '{\"messages\": [{\"role\": \"user\", \"content\": \"Hi\"}], "
      "\"add_generation_prompt\": true}' | viaduct tokenizer chat --tokenizer models/smollm2");
  return {app, [arguments] { return run(*arguments); }};
}

}  // namespace viaduct::cli
