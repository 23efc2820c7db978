#include "data/indexed_dataset_writer.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>

#include "base/error.h"
#include "base/log.h"
#include "data/image_files.h"
#include "data/indexed_dataset.h"
#include "data/score_mask.h"
#include "data/token_record.h"

namespace viaduct {
namespace {

constexpr size_t kBufferBytes = size_t{1} << 20;

template <class Stored, class Token>
bool encode(std::string& buffer, std::span<const Token> tokens, Token& refused) {
  const size_t start = buffer.size();
  buffer.resize(start + tokens.size() * sizeof(Stored));
  char* to = buffer.data() + start;
  for (const Token token : tokens) {
    if constexpr (std::is_integral_v<Stored>) {
      if (!std::in_range<Stored>(token)) {
        buffer.resize(start);
        refused = token;
        return false;
      }
    }
    const Stored stored = static_cast<Stored>(token);
    std::memcpy(to, &stored, sizeof stored);
    to += sizeof stored;
  }
  return true;
}

template <class T>
void append_value(std::string& text, T value) {
  text.append(reinterpret_cast<const char*>(&value), sizeof value);
}

}  // namespace

IndexedDatasetWriter::IndexedDatasetWriter(const std::filesystem::path& prefix, TokenType type)
    : prefix_(prefix.string()), type_(type), bin_(prefix_ + ".bin") {
  for (const char* ending : {".bin", ".idx"}) remove_unfinished(prefix_ + ending);
}

template <class Token>
void IndexedDatasetWriter::append_tokens(std::span<const Token> tokens) {
  VIADUCT_CHECK(IoError, tokens.size() <= static_cast<size_t>(std::numeric_limits<int32_t>::max()),
                "{}: sequence {} has {} tokens, more than the format's limit of {}", prefix_,
                lengths_.size(), tokens.size(), std::numeric_limits<int32_t>::max());
  Token refused{};
  const bool fits = with_token_type(
      type_, [&](auto stored) { return encode<decltype(stored)>(buffer_, tokens, refused); });
  VIADUCT_CHECK(IoError, fits, "{}: token {} of sequence {} does not fit into {}", prefix_, refused,
                lengths_.size(), token_type_name(type_));
  for (const Token token : tokens) largest_token_ = std::max<int64_t>(largest_token_, token);
  lengths_.push_back(static_cast<int32_t>(tokens.size()));
  total_tokens_ += static_cast<int64_t>(tokens.size());
  if (buffer_.size() >= kBufferBytes) flush();
}

void IndexedDatasetWriter::add_sequence(std::span<const int64_t> tokens) {
  append_tokens(tokens);
}
void IndexedDatasetWriter::add_sequence(std::span<const int32_t> tokens) {
  append_tokens(tokens);
}

void IndexedDatasetWriter::add_sequence(std::span<const int64_t> tokens, int8_t mode) {
  append_tokens(tokens);
  modes_.push_back(mode);
}

void IndexedDatasetWriter::end_document() {
  documents_.push_back(sequence_count());
}

void IndexedDatasetWriter::add_document(std::span<const int32_t> tokens) {
  append_tokens(tokens);
  end_document();
}

void IndexedDatasetWriter::append(const IndexedDataset& dataset) {
  VIADUCT_CHECK(IoError, dataset.token_type() == type_,
                "cannot append {} ({}) to {} ({}): the element types differ", dataset.prefix(),
                token_type_name(dataset.token_type()), prefix_, token_type_name(type_));
  flush();
  const int64_t first = sequence_count();
  for (int64_t i = 0; i < dataset.sequence_count(); ++i) {
    const std::span<const std::byte> bytes = dataset.bytes(i);
    buffer_.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    if (buffer_.size() >= kBufferBytes) flush();
    lengths_.push_back(dataset.sequence_length(i));
    if (dataset.has_modes()) modes_.push_back(dataset.sequence_mode(i));
  }
  for (int64_t i = 1; i <= dataset.document_count(); ++i)
    documents_.push_back(first + dataset.document_start(i));
  total_tokens_ += dataset.total_tokens();
  dataset.check_read();
}

void IndexedDatasetWriter::flush() {
  bin_.write(buffer_);
  buffer_.clear();
}

void IndexedDatasetWriter::check_modes() const {
  VIADUCT_CHECK(IoError, modes_.empty() || modes_.size() == lengths_.size(),
                "{}: {} of {} sequences have a mode, expected all or none", prefix_, modes_.size(),
                lengths_.size());
}

void IndexedDatasetWriter::finish() {
  check_modes();
  VIADUCT_CHECK(IoError, documents_.back() == sequence_count(),
                "{}: the last document is not closed", prefix_);
  flush();
  OutputFile idx(prefix_ + ".idx");
  std::string header("MMIDIDX\0\0", 9);
  append_value<uint64_t>(header, 1);
  append_value<uint8_t>(header, static_cast<uint8_t>(type_));
  append_value<uint64_t>(header, lengths_.size());
  append_value<uint64_t>(header, documents_.size());
  idx.write(header);
  idx.write(lengths_.data(), lengths_.size() * sizeof(int32_t));
  int64_t offset = 0;
  for (const int32_t length : lengths_) {
    append_value(buffer_, offset);
    offset += length * token_type_bytes(type_);
    if (buffer_.size() < kBufferBytes) continue;
    idx.write(buffer_);
    buffer_.clear();
  }
  idx.write(buffer_);
  idx.write(documents_.data(), documents_.size() * sizeof(int64_t));
  idx.write(modes_.data(), modes_.size());
  // An older index must never be visible beside the new tokens.
  std::error_code ignored;
  std::filesystem::remove(prefix_ + ".idx", ignored);
  bin_.commit();
  idx.commit();
}

namespace {

/// The record of data sets together: what is known of all of them, and the same for all.
std::optional<TokenRecord> merged_record(std::optional<TokenRecord> record,
                                         const std::optional<TokenRecord>& other) {
  if (!record || !other || record->separator != other->separator) return std::nullopt;
  auto& chat = record->conversations;
  const auto& more = other->conversations;
  // Whose tokens they are takes the tokenizer, or two that are known to be the same.
  const bool same_tokenizer = chat && more && chat->tokenizer == more->tokenizer;
  if (!same_tokenizer) {
    record->vocabulary.reset();
  } else if (other->largest_token > record->largest_token) {
    record->vocabulary = other->vocabulary;
  }
  record->largest_token = std::max(record->largest_token, other->largest_token);
  record->inner_separators += other->inner_separators;
  if (!chat || !more) {
    chat.reset();
    return record;
  }
  if (chat->train_on != more->train_on) chat->train_on += ", " + more->train_on;
  for (const auto& used : more->chat_templates) {
    if (std::ranges::find(chat->chat_templates, used) == chat->chat_templates.end())
      chat->chat_templates.push_back(used);
  }
  chat->control_tokens_as_text = chat->control_tokens_as_text && more->control_tokens_as_text;
  chat->scored += more->scored;
  chat->own_rows += more->own_rows;
  return record;
}

/// Documents that end with different tokens stay as they are, and nothing says what ends them.
void compare_separators(const IndexedDataset& first, const std::optional<TokenRecord>& a,
                        const IndexedDataset& next, const std::optional<TokenRecord>& b) {
  if (!a || !b || !a->separator || !b->separator || a->separator == b->separator) return;
  const auto end = [](int64_t token) {
    return token < 0 ? std::string("no token") : fmt::format("token {}", token);
  };
  log_warning(
      "documents of {} end with {}, those of {} with {}: the merged data set does not say what "
      "ends its documents; expected data sets that are tokenized alike (viaduct data tokenize "
      "--eod-token)",
      first.prefix(), end(*a->separator), next.prefix(), end(*b->separator));
}

/// Conversations of two tokenizers are refused; other differences are said.
void compare_conversations(const IndexedDataset& first, const std::optional<TokenRecord>& a,
                           const IndexedDataset& next, const std::optional<TokenRecord>& b) {
  if (!a || !b || !a->conversations || !b->conversations) return;
  const ConversationRecord &one = *a->conversations, &two = *b->conversations;
  VIADUCT_CHECK(ConfigError, one.tokenizer == two.tokenizer,
                "data sets {} and {}: their conversations are tokens of different tokenizers; make "
                "them with one (viaduct data chat --tokenizer)",
                first.prefix(), next.prefix());
  const auto warn = [&](bool same, const std::string& what) {
    if (!same)
      log_warning("data sets {} and {}: made with different {}", first.prefix(), next.prefix(),
                  what);
  };
  warn(one.train_on == two.train_on, "--train-on");
  warn(std::ranges::is_permutation(one.chat_templates, two.chat_templates),
       fmt::format("chat templates ({} beside {}): a model learns answers in both forms, and chat "
                   "and generate --chat ask in one",
                   template_hashes_text(one), template_hashes_text(two)));
  warn(one.control_tokens_as_text == two.control_tokens_as_text, "--user-control-tokens");
}

/// Whether all of the data sets have masks. ConfigError if only some of them do.
bool are_masked(const std::vector<std::filesystem::path>& prefixes) {
  const auto masked = [](const std::filesystem::path& prefix) { return has_mask(prefix.string()); };
  const auto with = std::ranges::find_if(prefixes, masked),
             without = std::ranges::find_if_not(prefixes, masked);
  VIADUCT_CHECK(ConfigError, with == prefixes.end() || without == prefixes.end(),
                "merging data sets: {} has a mask ({}.idx), and {} has none; expected masks of all "
                "or of none (a run reads both kinds: dataset.blend)",
                with->string(), mask_prefix(with->string()), without->string());
  return with != prefixes.end();
}

}  // namespace

void merge_indexed_datasets(const std::vector<std::filesystem::path>& prefixes,
                            const std::filesystem::path& output) {
  VIADUCT_CHECK(ConfigError, !prefixes.empty(), "merging indexed datasets into {}: none given",
                output.string());
  for (const auto& prefix : prefixes) {
    VIADUCT_CHECK(ConfigError, !has_images(prefix.string()),
                  "merging data sets: {} has pictures ({}.idx), whose places are not merged; make "
                  "one data set of all conversations (viaduct data chat)",
                  prefix.string(), images_prefix(prefix.string()));
  }
  std::optional<IndexedDatasetWriter> masks;
  if (are_masked(prefixes)) masks.emplace(mask_prefix(output.string()), TokenType::uint8);
  const auto first = std::make_shared<const IndexedDataset>(prefixes.front());
  const auto first_record = read_token_record(*first);
  IndexedDatasetWriter writer(output, first->token_type());
  std::optional<TokenRecord> record;
  for (size_t i = 0; i < prefixes.size(); ++i) {
    const auto next = i == 0 ? first : std::make_shared<const IndexedDataset>(prefixes[i]);
    check_mask_files(*next);
    check_image_files(*next);
    const auto next_record = i == 0 ? first_record : read_token_record(*next);
    compare_separators(*first, first_record, *next, next_record);
    compare_conversations(*first, first_record, *next, next_record);
    writer.append(*next);
    if (masks) {
      const auto mask = std::make_shared<const IndexedDataset>(mask_prefix(prefixes[i].string()));
      const ScoreMask fits(next, mask);
      masks->append(*mask);
    }
    record = i == 0 ? next_record : merged_record(std::move(record), next_record);
  }
  // The mask comes first: tokens without one would be learned all.
  if (masks) masks->finish();
  writer.finish();
  if (!masks) remove_mask(output.string());
  remove_images(output.string());
  if (record) write_token_record(output, *record);
}

}  // namespace viaduct
