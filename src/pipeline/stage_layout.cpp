#include "pipeline/stage_layout.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "base/units.h"
#include "config/nearest_valid.h"

namespace viaduct {
namespace {

constexpr const char* kName = "model.pipeline_model_parallel_layout";
constexpr size_t kMostLetters = 100'000;  // repeats of repeats grow fast

/// Expands repeats: the result holds only E, t, m, L and |.
class Expander {
 public:
  Expander(std::string_view text, Problems& problems) : text_(text), problems_(problems) {}

  /// False if the text is wrong.
  bool expand(std::string& letters) {
    if (!sequence(letters, 0)) return false;
    if (at_ < text_.size()) return wrong("a ')' without its '('");
    return true;
  }

 private:
  bool wrong(const std::string& what) {
    problems_.add("{}: {} at character {} of '{}'", kName, what, at_ + 1, text_.substr(0, 100));
    return false;
  }

  void skip() {
    while (at_ < text_.size() && (text_[at_] == ',' || text_[at_] == ' ')) ++at_;
  }

  bool sequence(std::string& out, int depth) {
    constexpr int kDeepest = 16;
    if (depth > kDeepest) return wrong("brackets nested too deep");
    for (skip(); at_ < text_.size() && text_[at_] != ')'; skip()) {
      std::string item;
      if (text_[at_] == '(') {
        ++at_;
        if (!sequence(item, depth + 1)) return false;
        if (at_ == text_.size()) return wrong("a '(' without its ')'");
        ++at_;
      } else if (std::string_view("EtmL|").find(text_[at_]) != std::string_view::npos) {
        item = text_[at_++];
      } else {
        return wrong("expected E, t, m, L, |, a bracket or a comma");
      }
      int count = 1;
      skip();
      if (at_ < text_.size() && text_[at_] == '*' && !repeat_count(count)) return false;
      if (out.size() + item.size() * static_cast<size_t>(count) > kMostLetters)
        return wrong("more than 100000 letters");
      for (int i = 0; i < count; ++i) out += item;
    }
    return true;
  }

  bool repeat_count(int& count) {
    ++at_;
    skip();
    const auto [end, error] =
        std::from_chars(text_.data() + at_, text_.data() + text_.size(), count);
    if (error != std::errc() || count < 1) return wrong("expected a number of repeats from 1");
    at_ = static_cast<size_t>(end - text_.data());
    return true;
  }

  std::string_view text_;
  Problems& problems_;
  size_t at_ = 0;
};

std::string joined(const OneOrList<std::string>& layout) {
  std::string text;
  for (size_t i = 0; i < layout.values().size(); ++i)
    text += (i == 0 ? "" : "|") + layout.values()[i];
  return text;
}

std::vector<ChunkLayers> stages_of(const std::string& letters) {
  std::vector<ChunkLayers> stages{{false, 0, 0, false}};
  int64_t block = 0;
  for (const char letter : letters) {
    if (letter == '|') stages.push_back({false, block, 0, false});
    if (letter == 'E') stages.back().embedding = true;
    if (letter == 'L') stages.back().head = true;
    if (letter == 't') {
      ++stages.back().blocks;
      ++block;
    }
  }
  return stages;
}

}  // namespace

std::vector<ChunkLayers> parse_stage_layout(const OneOrList<std::string>& layout, int64_t layers,
                                            int pp, Problems& problems,
                                            std::optional<int64_t> mtp) {
  const std::string text = joined(layout);
  std::string letters;
  if (!Expander(text, problems).expand(letters)) return {};
  const auto count = [&](char letter) {
    return std::count(letters.begin(), letters.end(), letter);
  };
  const auto found_text = [&](char letter) {
    if (count(letter) == 0) return std::string("none");
    const std::string place =
        fmt::format("letter {} of {}", letters.find(letter) + 1, letters.size());
    return count(letter) == 1 ? place : fmt::format("{}, the first is {}", count(letter), place);
  };
  if (count('E') != 1 || letters.front() != 'E')
    problems.add("{}: expected one E, as the first letter; found {}", kName, found_text('E'));
  if (count('L') != 1 || letters.back() != 'L')
    problems.add("{}: expected one L, as the last letter; found {}", kName, found_text('L'));
  const int64_t further = count('m');
  const size_t before_loss = letters.find_last_not_of("mL");
  if (further > 0 && letters.find('m') < (before_loss == std::string::npos ? 0 : before_loss)) {
    problems.add("{}: m: layers of multi-token prediction are right before L, in its stage", kName);
  }
  if (mtp && further != *mtp) {
    problems.add("{}: {} of multi-token prediction (m), and model.mtp_num_layers = {}", kName,
                 counted(further, "layer"), *mtp == 0 ? "null" : std::to_string(*mtp));
  }
  if (layers > 0 && count('t') != layers) {
    problems.add("{}: {} (t), and model.num_layers = {}", kName,
                 counted(count('t'), "transformer layer"), layers);
  }
  std::vector<ChunkLayers> stages = stages_of(letters);
  const auto found = static_cast<int64_t>(stages.size());
  if (found % pp != 0) {
    problems.add("{}: {} not divisible by pipeline_model_parallel_size = {}; nearest: {} stages",
                 kName, counted(found, "stage is", "stages are"), pp, nearest_multiple(found, pp));
  }
  return stages;
}

}  // namespace viaduct
