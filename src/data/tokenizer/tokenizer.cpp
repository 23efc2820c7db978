#include "data/tokenizer/tokenizer.h"

#include <algorithm>

#include "base/error.h"
#include "data/tokenizer/unicode.h"

namespace viaduct {
namespace {

constexpr int64_t kMaxGap = 1 << 20;

}  // namespace

Tokenizer::Tokenizer(Parts parts, std::string_view source)
    : model_(std::move(parts.model)),
      decoder_(std::move(parts.decoder)),
      around_(std::move(parts.around)),
      special_(std::move(parts.special)),
      vocab_size_(model_->size()) {
  const int64_t limit = int64_t{model_->size()} + int64_t(parts.added.size()) + kMaxGap;
  const auto scratch = model_->make_scratch();
  for (AddedToken& added : parts.added) {
    // The model's own spelling of the token determines its id.
    if (const auto known = model_->find(added.content)) added.id = *known;
    VIADUCT_CHECK(IoError, added.id >= 0 && added.id < limit,
                  "{}: added token \"{}\" has id {}, expected 0 to {}", source, added.content,
                  added.id, limit - 1);
    const auto other = model_->token(added.id);
    VIADUCT_CHECK(IoError, !other || *other == added.content,
                  "{}: added token \"{}\" has id {}, which is token \"{}\"", source, added.content,
                  added.id, *other);
    any_normalized_ |= added.normalized;
    if (added.normalized && is_valid_utf8(added.content)) {
      added.searched = model_->normalize(added.content, *scratch).value_or("");
    }
    vocab_size_ = std::max(vocab_size_, added.id + 1);
  }
  added_ = AddedTokens(std::move(parts.added));
  const auto check = [&](std::string_view what, int32_t id) {
    VIADUCT_CHECK(IoError, token(id).has_value(), "{}: {} has id {}, which is not a token", source,
                  what, id);
  };
  for (const int32_t id : around_.before) check("the template", id);
  for (const int32_t id : around_.after) check("the template", id);
  for (const auto& id : {special_.bos, special_.eos, special_.pad, special_.eod}) {
    if (id) check("a special token", *id);
  }
  for (const int32_t id : special_.stop) check("a special token", id);
}

UnknownBytes Tokenizer::encode(std::string_view text, const EncodeOptions& options,
                               EncodeCache& cache, std::vector<int32_t>& ids) const {
  cache.scratch_->unknown = {};
  std::string repaired;
  const bool exact = options.exact_bytes && !is_valid_utf8(text);
  if (!exact && !is_valid_utf8(text)) {
    repaired = lossy_utf8(text);
    text = repaired;
  }
  TokenModel::Scratch& scratch = *cache.scratch_;
  scratch.at_start = true;
  const auto token = [&](int32_t id) {
    ids.push_back(id);
    scratch.at_start = false;
  };
  const auto encode_plain = [&](std::string_view plain) {
    model_->encode(plain, scratch, ids);
    scratch.at_start = false;
  };
  const auto encode_unnormalized = [&](std::string_view plain) {
    const auto changed = model_->normalize(plain, scratch);
    const std::string_view normalized = changed ? std::string_view(*changed) : plain;
    if (any_normalized_) {
      added_.split(normalized, true, options.special_as_text, encode_plain, token);
    } else if (!normalized.empty()) {
      encode_plain(normalized);
    }
  };
  if (options.add_special_tokens) {
    ids.insert(ids.end(), around_.before.begin(), around_.before.end());
  }
  if (exact) {
    for (std::string_view rest = text; !rest.empty();) {
      const Stretch stretch = first_stretch(rest);
      rest.remove_prefix(stretch.text.size());
      if (stretch.well_formed) {
        added_.split(stretch.text, false, options.special_as_text, encode_unnormalized, token);
      } else {
        VIADUCT_CHECK(ConfigError, model_->encode_bytes(stretch.text, scratch, ids),
                      "a tokenizer of kind {} encodes only UTF-8 text", kind());
      }
    }
  } else {
    added_.split(text, false, options.special_as_text, encode_unnormalized, token);
  }
  if (options.add_special_tokens) {
    ids.insert(ids.end(), around_.after.begin(), around_.after.end());
  }
  return cache.scratch_->unknown;
}

std::vector<int32_t> Tokenizer::encode(std::string_view text, const EncodeOptions& options) const {
  EncodeCache cache = make_cache();
  std::vector<int32_t> ids;
  encode(text, options, cache, ids);
  return ids;
}

std::string Tokenizer::decode(std::span<const int32_t> ids) const {
  DecodeState state;
  std::string bytes;
  for (size_t i = 0; i < ids.size(); ++i) {
    VIADUCT_CHECK(IoError, decode(ids[i], state, bytes),
                  "cannot decode id {} (at {}): no token of this vocabulary of {}", ids[i], i,
                  vocab_size_);
  }
  return bytes;
}

bool Tokenizer::decode(int32_t id, DecodeState& state, std::string& bytes) const {
  const AddedToken* added = added_.find(id);
  if (decoder_ && !decoder_->joins_with_spaces()) {
    const auto spelling = token(id);
    if (!spelling) return false;
    RegexScratch scratch;
    decoder_->push(*spelling, true, added != nullptr, state, scratch, bytes);
    return true;
  }
  if (added != nullptr && !model_->decodes_added(id)) {
    bytes += added->content;
    state = {};
    return true;
  }
  return model_->decode(id, state, bytes);
}

bool Tokenizer::decode_text(int32_t id, DecodeState& state, std::string& bytes) const {
  if (!decoder_) return decode(id, state, bytes);
  const AddedToken* added = added_.find(id);
  const bool changed = added != nullptr && !added->searched.empty();
  const auto spelling = changed ? std::optional(added->searched) : token(id);
  if (!spelling) return false;
  RegexScratch scratch;
  decoder_->push(*spelling, false, false, state, scratch, bytes);
  return true;
}

std::string Tokenizer::decode_text(std::span<const int32_t> ids) const {
  DecodeStream stream(*this);
  std::string text;
  for (size_t i = 0; i < ids.size(); ++i) {
    VIADUCT_CHECK(IoError, token(ids[i]).has_value(),
                  "cannot decode id {} (at {}): no token of this vocabulary of {}", ids[i], i,
                  vocab_size_);
    text += stream.push(ids[i]);
  }
  return text + stream.finish();
}

std::optional<int32_t> Tokenizer::find(std::string_view token) const {
  if (const AddedToken* added = added_.find(token)) return added->id;
  return model_->find(token);
}

std::optional<std::string> Tokenizer::token(int32_t id) const {
  if (const AddedToken* added = added_.find(id)) return added->content;
  return model_->token(id);
}

std::string Tokenizer::unknown_bytes_became() const {
  const auto unknown = model_->unknown_token();
  return unknown ? "became " + token(*unknown).value_or("the unknown token") : "left out";
}

std::string DecodeStream::push(int32_t id) {
  if (!tokenizer_.decode_text(id, state_, held_)) append_utf8(held_, 0xFFFD);
  const size_t whole = held_.size() - unfinished_utf8_bytes(held_);
  std::string text = lossy_utf8(std::string_view(held_).substr(0, whole));
  held_.erase(0, whole);
  return text;
}

std::string DecodeStream::finish() {
  if (tokenizer_.decoder_) {
    RegexScratch scratch;
    tokenizer_.decoder_->finish(state_, scratch, held_);
  }
  std::string text = lossy_utf8(held_);
  held_.clear();
  state_ = {};
  return text;
}

}  // namespace viaduct
