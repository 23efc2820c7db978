#include "generate/stop_text.h"

#include <algorithm>

#include "base/error.h"
#include "config/problems.h"

namespace viaduct {
namespace {

/// Length of the longest proper prefix of `stop` that ends `text`.
size_t overlap(std::string_view text, std::string_view stop) {
  for (size_t size = std::min(text.size(), stop.size() - 1); size > 0; --size) {
    if (text.ends_with(stop.substr(0, size))) return size;
  }
  return 0;
}

}  // namespace

void check_stop_strings(const Tokenizer& tokenizer, const std::vector<std::string>& stops) {
  Problems problems;
  for (const std::string& stop : stops) {
    if (stop.empty()) {
      problems.add("--stop: empty; every text begins with the empty text");
      continue;
    }
    // A tokenizer may add a space before a text, or drop unknown characters.
    const std::string spelled = shown_text(tokenizer, tokenizer.encode("a" + stop));
    if (spelled.find(stop) == std::string::npos) {
      problems.add("--stop '{}': the tokenizer cannot make this text (its tokens spell '{}')", stop,
                   spelled.starts_with("a") ? spelled.substr(1) : spelled);
    }
  }
  problems.throw_if_any();
}

std::string StopText::take(std::string more) {
  if (stopped_by_) return "";
  held_ += more;
  size_t first = std::string::npos;
  for (const std::string& stop : stops_) {
    const size_t at = held_.find(stop);
    if (at >= first) continue;
    first = at;
    stopped_by_ = stop;
  }
  size_t keep = 0;
  if (!stopped_by_) {
    for (const std::string& stop : stops_) keep = std::max(keep, overlap(held_, stop));
  }
  const size_t certain = stopped_by_ ? first : held_.size() - keep;
  std::string text = held_.substr(0, certain);
  held_.erase(0, stopped_by_ ? held_.size() : certain);
  return text;
}

std::string StopText::finish() {
  std::string text = take(stream_.finish());
  return text + std::exchange(held_, "");
}

}  // namespace viaduct
