#include "data/tokenizer/space_cleanup.h"

#include <algorithm>

namespace viaduct {
namespace {

struct Step {
  std::string_view from, to;
};

// Applied one after the other to the whole text, in the order of transformers.
constexpr std::array<Step, 10> kReplacements{{{" .", "."},
                                              {" ?", "?"},
                                              {" !", "!"},
                                              {" ,", ","},
                                              {" ' ", "'"},
                                              {" n't", "n't"},
                                              {" 'm", "'m"},
                                              {" 's", "'s"},
                                              {" 've", "'ve"},
                                              {" 're", "'re"}}};

/// The longest end of `text` that a match may begin with.
size_t unfinished(std::string_view text, std::string_view match) {
  for (size_t size = std::min(text.size(), match.size() - 1); size > 0; --size) {
    if (text.ends_with(match.substr(0, size))) return size;
  }
  return 0;
}

}  // namespace

std::string SpaceCleanup::replace(size_t step, std::string more, bool last) {
  static_assert(kSteps == kReplacements.size());
  const auto [from, to] = kReplacements[step];
  const std::string text = std::move(held_[step]) + more;
  std::string out;
  size_t done = 0;
  for (size_t at; (at = text.find(from, done)) != std::string::npos; done = at + from.size())
    out.append(text, done, at - done).append(to);
  const std::string_view rest = std::string_view(text).substr(done);
  const size_t held = last ? 0 : unfinished(rest, from);
  held_[step] = rest.substr(rest.size() - held);
  return out.append(rest.substr(0, rest.size() - held));
}

std::string SpaceCleanup::push(std::string more) {
  for (size_t step = 0; step < kSteps; ++step) more = replace(step, std::move(more), false);
  return more;
}

std::string SpaceCleanup::finish() {
  std::string more;
  for (size_t step = 0; step < kSteps; ++step) more = replace(step, std::move(more), true);
  return more;
}

}  // namespace viaduct
