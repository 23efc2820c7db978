#include "chat_lines.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/json.h"
#include "base/json_reader.h"
#include "base/log.h"
#include "generate/adapter_choice.h"
#include "standard_streams.h"

namespace viaduct::cli {
namespace {

using Json = nlohmann::ordered_json;

std::string text_of(const Json& document) {
  return document.dump(-1, ' ', false, Json::error_handler_t::replace);
}

constexpr const char* kExpected = "expected {\"role\", \"content\"} or {\"messages\": […]}";

Json parse_line(const std::string& line, const std::string& where) {
  Json document;
  try {
    document = parse_json<Json>(line, where);
  } catch (const IoError& error) {
    fail<ConfigError>("{}; {}", error.what(), kExpected);
  }
  const bool known =
      document.is_object() && (document.contains("role") || document.contains("messages") ||
                               document.contains("conversations"));
  VIADUCT_CHECK(ConfigError, known, "{}: {}, found {}", where, kExpected,
                shown_name(line.substr(0, 80)));
  return document;
}

/// A message whose content has another name would be answered as an empty one.
void check_content(const Json& message, const std::string& where) {
  const auto content = message.find("content");
  const bool empty = content == message.end() || content->is_null();
  VIADUCT_CHECK(ConfigError, !empty || message.contains("tool_calls"),
                "{}: a message without \"content\"", where);
}

/// What is wrong with a line, with what it calls itself.
std::string error_line(const std::string& line, const char* error) {
  Json out{{"error", error}};
  const auto document = try_parse_json<Json>(line);
  if (document && document->is_object() && document->contains("id")) out["id"] = (*document)["id"];
  return text_of(out);
}

Json answer_line(const ChatSession::Asked& asked) {
  const Answer& answer = asked.answer;
  const Generated& generated = answer.generated;
  const auto after_first = static_cast<double>(generated.tokens.size()) - 1;
  const double seconds = std::max(answer.seconds - answer.prompt_seconds, 1e-9);
  return {{"role", "assistant"},
          {"content", answer.text},
          {"stop_reason", asked.context_full ? "context_full" : reason_name(generated.reason)},
          {"tokens", generated.tokens.size()},
          {"prompt_tokens", asked.prompt_tokens},
          {"cached_tokens", answer.reused_tokens},
          {"prompt_seconds", answer.prompt_seconds},
          {"tokens_per_second", after_first > 0 ? Json(after_first / seconds) : Json()}};
}

}  // namespace

std::string ChatLines::answer(const std::string& line, const std::string& where) {
  const Json document = parse_line(line, where);
  const auto nobody = [](const std::string&) {};
  if (const auto adapter = chosen_adapter(document, where)) session_.use_adapter(*adapter, where);
  ChatSession::Asked asked;
  if (document.contains("role")) {
    check_content(document, where);
    ChatMessage message = read_message(line, where, session_.reads_images());
    if (message.is_answer() || message.is_instruction()) {
      session_.add(std::move(message));
      return "";
    }
    asked = session_.ask(std::move(message), where, nobody);
  } else {
    asked = session_.ask(read_conversation(line, where, session_.reads_images()), where, nobody);
  }
  warn_about_tools(asked, where);
  Json out = answer_line(asked);
  if (!session_.adapters().empty()) {
    const std::string adapter = session_.adapter();
    out["adapter"] = adapter.empty() ? Json() : Json(adapter);
  }
  if (document.contains("id")) out["id"] = document["id"];
  return text_of(out);
}

void ChatLines::warn_about_tools(const ChatSession::Asked& asked, const std::string& where) {
  if (asked.hidden_tools.empty() || std::exchange(warned_, true)) return;
  log_warning("{}: the chat template does not show {}", where, asked.hidden_tools);
}

bool ChatLines::run(std::istream& in) {
  bool good = true;
  int64_t number = 0;
  for (std::string text; std::getline(in, text);) {
    const std::string where = fmt::format("standard input line {}", ++number);
    if (text.find_first_not_of(" \t\r") == std::string::npos) continue;
    std::string out;
    try {
      out = answer(text, where);
    } catch (const ConfigError& error) {
      good = false;
      out = error_line(text, error.what());
    }
    if (out.empty()) continue;
    print_now(out + "\n");
  }
  VIADUCT_CHECK(IoError, !in.bad(), "standard input: cannot be read");
  return good;
}

}  // namespace viaduct::cli
