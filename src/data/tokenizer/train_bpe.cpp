#include "data/tokenizer/train_bpe.h"

#include <algorithm>
#include <functional>

#include "base/error.h"
#include "data/byte_stream.h"
#include "data/document_reader.h"
#include "data/tokenizer/byte_alphabet.h"
#include "data/tokenizer/unicode.h"

namespace viaduct {
namespace {

constexpr int32_t kFixedTokens = 257;  // the end of text and the bytes
constexpr int32_t kMaxVocabSize = 1 << 24;

/// Two neighbouring ids as one number, ordered like the pairs.
using Pair = uint64_t;

Pair pair_of(int32_t left, int32_t right) {
  return Pair{static_cast<uint32_t>(left)} << 32 | static_cast<uint32_t>(right);
}

struct Candidate {
  int64_t count = 0;
  Pair pair = 0;
  // The top of the heap: the highest count, and among those the lowest pair.
  bool operator<(const Candidate& other) const {
    return count != other.count ? count < other.count : pair > other.pair;
  }
};

/// The pieces as ids, and where each pair occurs.
class PairIndex {
 public:
  struct Word {
    std::vector<int32_t> ids;
    int64_t count = 0;
  };

  explicit PairIndex(std::vector<Word> words) : words_(std::move(words)) {
    for (uint32_t word = 0; word < words_.size(); ++word) {
      const auto& ids = words_[word].ids;
      for (size_t i = 0; i + 1 < ids.size(); ++i) change(pair_of(ids[i], ids[i + 1]), word, +1);
    }
    for (const auto& [pair, entry] : pairs_) heap_.push_back({entry.count, pair});
    std::make_heap(heap_.begin(), heap_.end());
  }

  /// The most frequent pair, or nothing if none is left.
  std::optional<Pair> most_frequent() {
    while (!heap_.empty()) {
      std::pop_heap(heap_.begin(), heap_.end());
      const Candidate top = heap_.back();
      heap_.pop_back();
      const int64_t now = pairs_[top.pair].count;
      if (now == top.count) return top.pair;
      if (now > 0)
        push({now, top.pair});  // the count is stale: other merges removed some occurrences
    }
    return std::nullopt;
  }

  /// Replaces the pair everywhere by `joined`.
  void join(Pair pair, int32_t joined) {
    Entry entry = std::move(pairs_[pair]);
    pairs_[pair] = {};
    grown_.clear();
    for (const uint32_t word : entry.words) join_in(word, pair, joined);
    std::sort(grown_.begin(), grown_.end());
    grown_.erase(std::unique(grown_.begin(), grown_.end()), grown_.end());
    pairs_[pair].count = 0;  // overlapping occurrences were counted, none is left
    for (const Pair grown : grown_) {
      if (const int64_t count = pairs_[grown].count; count > 0) push({count, grown});
    }
  }

 private:
  struct Entry {
    int64_t count = 0;
    std::vector<uint32_t> words;  // pieces that have or had the pair; may repeat
  };

  void push(Candidate candidate) {
    heap_.push_back(candidate);
    std::push_heap(heap_.begin(), heap_.end());
  }

  void change(Pair pair, uint32_t word, int sign) {
    Entry& entry = pairs_[pair];
    entry.count += sign * words_[word].count;
    if (sign < 0) return;
    if (entry.words.empty() || entry.words.back() != word) entry.words.push_back(word);
  }

  void join_in(uint32_t word, Pair pair, int32_t joined) {
    auto& ids = words_[word].ids;
    const auto left = static_cast<int32_t>(pair >> 32), right = static_cast<int32_t>(pair);
    size_t written = 0;
    const auto replace = [&](Pair before, Pair after) {
      change(before, word, -1);
      change(after, word, +1);
      grown_.push_back(after);
    };
    for (size_t i = 0; i < ids.size();) {
      if (i + 1 == ids.size() || ids[i] != left || ids[i + 1] != right) {
        ids[written++] = ids[i++];
        continue;
      }
      if (written > 0) {
        const int32_t previous = ids[written - 1];
        replace(pair_of(previous, left), pair_of(previous, joined));
      }
      if (i + 2 < ids.size()) replace(pair_of(right, ids[i + 2]), pair_of(joined, ids[i + 2]));
      ids[written++] = joined;
      i += 2;
    }
    ids.resize(written);
  }

  std::vector<Word> words_;
  std::unordered_map<Pair, Entry> pairs_;
  std::vector<Candidate> heap_;
  std::vector<Pair> grown_;
};

}  // namespace

BpeTrainer::BpeTrainer() : pre_tokenizer_(pre_tokenizer_of(gpt2_pattern())) {}

void BpeTrainer::add_text(std::string_view text) {
  while (!text.empty()) {
    const size_t end = text.find('\n');
    std::string_view line = text.substr(0, end == std::string_view::npos ? end : end + 1);
    text.remove_prefix(line.size());
    for (size_t mark; (mark = line.find(kEndOfText)) != std::string_view::npos;) {
      add_line(line.substr(0, mark));
      line.remove_prefix(mark + kEndOfText.size());
    }
    add_line(line);
  }
}

void BpeTrainer::add_line(std::string_view line) {
  std::string repaired;
  if (!is_valid_utf8(line)) {
    repaired = lossy_utf8(line);
    line = repaired;
  }
  pre_tokenizer_.split(line, {.at_start = true}, scratch_,
                       [this](std::string_view piece) { ++pieces_[std::string(piece)]; });
}

TrainedBpe BpeTrainer::train(int32_t vocab_size) const {
  VIADUCT_CHECK(ConfigError, vocab_size >= kFixedTokens && vocab_size <= kMaxVocabSize,
                "vocabulary of {}: expected {} (256 bytes and the end of text) to {}", vocab_size,
                kFixedTokens, kMaxVocabSize);
  TrainedBpe trained;
  trained.tokens.emplace_back(kEndOfText);
  std::array<int32_t, 256> id_of_byte{};
  std::vector<std::pair<char32_t, uint8_t>> alphabet;
  for (int byte = 0; byte < 256; ++byte) {
    alphabet.emplace_back(byte_character(static_cast<uint8_t>(byte)), static_cast<uint8_t>(byte));
  }
  std::sort(alphabet.begin(), alphabet.end());
  for (const auto& [character, byte] : alphabet) {
    id_of_byte[byte] = static_cast<int32_t>(trained.tokens.size());
    append_utf8(trained.tokens.emplace_back(), character);
  }
  std::unordered_map<std::string, int32_t> id_of;
  for (size_t id = 0; id < trained.tokens.size(); ++id) {
    id_of.emplace(trained.tokens[id], static_cast<int32_t>(id));
  }
  std::vector<PairIndex::Word> words;
  words.reserve(pieces_.size());
  for (const auto& [piece, count] : pieces_) {
    PairIndex::Word word{{}, count};
    for (const char c : piece) word.ids.push_back(id_of_byte[static_cast<uint8_t>(c)]);
    words.push_back(std::move(word));
  }
  PairIndex index(std::move(words));
  while (trained.tokens.size() < static_cast<size_t>(vocab_size)) {
    const auto pair = index.most_frequent();
    if (!pair) break;
    const std::string left = trained.tokens[*pair >> 32],
                      right = trained.tokens[*pair & 0xFFFFFFFF];
    // Two merges can spell the same token; it keeps its id.
    const auto [entry, fresh] =
        id_of.try_emplace(left + right, static_cast<int32_t>(trained.tokens.size()));
    if (fresh) trained.tokens.push_back(left + right);
    trained.merges.emplace_back(left, right);
    index.join(*pair, entry->second);
  }
  return trained;
}

TrainedBpe train_bpe(const std::vector<std::filesystem::path>& files, int32_t vocab_size,
                     const std::string& json_key) {
  BpeTrainer trainer;
  for (const auto& path : files) input_kind(path);  // a missing last file is reported at once
  DocumentReader reader(files, false);
  while (const auto piece = reader.next()) {
    for_each_document(*piece, json_key,
                      [&](std::string_view text, const DocumentPlace&) { trainer.add_text(text); });
  }
  return trainer.train(vocab_size);
}

}  // namespace viaduct
