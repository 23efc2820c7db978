#include "generate_output.h"

#include <algorithm>

#include "base/clock.h"
#include "base/json.h"
#include "base/json_reader.h"
#include "standard_streams.h"

namespace viaduct::cli {
void GenerateOutput::begin() {
  began_ = steady_seconds();
  if (streams() && shows_prompt(0)) print_now(texts_.front().text);
}

void GenerateOutput::piece(const std::string& text) {
  if (streams()) print_now(text);
}

void GenerateOutput::print(const GeneratedText& text) const {
  const PromptText& given = texts_[static_cast<size_t>(text.number)];
  const std::string& prompt = given.text;
  const Generated& generated = text.generated;
  if (!form_.json) {
    if (streams()) return print_now("\n");
    return print_now((text.number > 0 ? "\n" : "") + (shows_prompt(text.number) ? prompt : "") +
                     text.text + "\n");
  }
  nlohmann::ordered_json document{
      {"prompt", prompt},
      {"text", text.text},
      {"prompt_tokens", prompts_[static_cast<size_t>(text.number)].asked()},
      {"tokens", generated.tokens},
      {"stop_reason", reason_name(generated.reason)},
      {"stop_token", nullptr},
      {"stop_string", nullptr},
      {"tokens_per_second",
       static_cast<double>(tokens_) / std::max(steady_seconds() - began_, 1e-9)}};
  if (generated.stop_token) document["stop_token"] = *generated.stop_token;
  if (text.stop_string) document["stop_string"] = *text.stop_string;
  if (form_.answers) document["message"] = {{"role", "assistant"}, {"content", text.text}};
  if (given.adapter) {
    document["adapter"] = nullptr;
    if (!given.adapter->empty()) document["adapter"] = *given.adapter;
  }
  if (!given.id.empty()) document["id"] = parse_json<nlohmann::ordered_json>(given.id, given.where);
  print_now(document.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
}

void GenerateOutput::finished(const GeneratedText& text) {
  tokens_ += static_cast<int64_t>(text.generated.tokens.size());
  waiting_.emplace(text.number, text);
  for (auto next = waiting_.find(printed_); next != waiting_.end();
       next = waiting_.find(printed_)) {
    print(next->second);
    waiting_.erase(next);
    ++printed_;
  }
}

}  // namespace viaduct::cli
