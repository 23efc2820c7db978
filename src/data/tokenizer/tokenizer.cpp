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
      splits_special_(parts.splits_special),
      cleans_spaces_(parts.cleans_spaces),
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
    if ((added.normalized || added.was_normalized) && is_valid_utf8(added.content)) {
      const auto normalized = model_->normalize(added.content, *scratch);
      VIADUCT_CHECK(ConfigError, !normalized || !normalized->empty(),
                    "{}: the normalizer leaves nothing of added token \"{}\", which is not "
                    "supported",
                    source, added.content);
      added.searched = normalized.value_or("");
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

/// One call of `encode`.
struct Tokenizer::Encoding {
  const Tokenizer& tokenizer;
  const bool special_as_text, added_as_text;
  TokenModel::Scratch& scratch;
  const std::string_view original;
  std::vector<int32_t>& ids;
  TokenPlaces* places;

  size_t place_of(std::string_view part) const {
    return static_cast<size_t>(part.data() - original.data());
  }

  void split(std::string_view text, bool normalized, FunctionRef<void(std::string_view)> plain,
             FunctionRef<void(int32_t, std::string_view)> token) const {
    if (!added_as_text) {
      tokenizer.added_.split(text, normalized, special_as_text, plain, token);
    } else if (!text.empty()) {
      plain(text);
    }
  }

  /// A part of the original that is well-formed.
  void encode(std::string_view text) const {
    const auto token = [&](int32_t id, std::string_view matched) {
      add(id);
      const size_t begin = place_of(matched);
      if (places != nullptr) places->add({begin, begin + matched.size()}, matched);
    };
    const auto plain = [&](std::string_view part) { encode_unnormalized(part); };
    split(text, false, plain, token);
  }

  void encode_unnormalized(std::string_view text) const {
    const TokenModel& model = *tokenizer.model_;
    if (places != nullptr) return encode_tracked(text);
    const auto changed = model.normalize(text, scratch);
    if (model.needs_places(changed.has_value())) return encode_tracked(text);
    const std::string_view normalized = changed ? std::string_view(*changed) : text;
    const auto token = [&](int32_t id, std::string_view) { add(id); };
    const auto plain = [&](std::string_view part) {
      model.encode(part, scratch, ids);
      scratch.at_start = scratch.in_middle = false;
    };
    if (tokenizer.any_normalized_) {
      split(normalized, true, plain, token);
    } else if (!normalized.empty()) {
      plain(normalized);
    }
  }

  void encode_tracked(std::string_view text) const {
    TrackedText tracked(text, place_of(text));
    tokenizer.model_->normalize_tracked(tracked, scratch);
    const TrackedView whole = tracked.view();
    const auto view_of = [&](std::string_view part) {
      const auto begin = static_cast<size_t>(part.data() - whole.text.data());
      return whole.part(begin, begin + part.size());
    };
    const auto token = [&](int32_t id, std::string_view matched) {
      add(id);
      const TrackedView part = view_of(matched);
      if (places != nullptr)
        places->add({part.begin, part.places[matched.size() - 1].end}, matched);
    };
    const auto plain = [&](std::string_view part) {
      tokenizer.model_->encode_tracked(view_of(part), scratch, ids, places);
      scratch.at_start = scratch.in_middle = false;
    };
    split(whole.text, true, plain, token);
  }

  void add(int32_t id) const {
    ids.push_back(id);
    scratch.at_start = scratch.in_middle = false;
  }
};

UnknownBytes Tokenizer::encode(std::string_view text, const EncodeOptions& options,
                               EncodeCache& cache, std::vector<int32_t>& ids,
                               TokenPlaces* places) const {
  TokenModel::Scratch& scratch = *cache.scratch_;
  scratch.unknown = {};
  scratch.at_start = true;
  scratch.in_middle = false;
  const bool special_as_text = options.special_as_text || splits_special_;
  const Encoding encoding{*this, special_as_text, options.added_as_text, scratch, text,
                          ids,   places};
  if (!options.exact_bytes || is_valid_utf8(text)) {
    encoding.encode(text);
    return scratch.unknown;
  }
  for (std::string_view rest = text; !rest.empty();) {
    const Stretch stretch = first_stretch(rest);
    rest.remove_prefix(stretch.text.size());
    if (stretch.well_formed) {
      encoding.encode(stretch.text);
    } else {
      VIADUCT_CHECK(ConfigError, model_->encode_bytes(stretch.text, scratch, ids),
                    "a tokenizer of kind {} encodes only UTF-8 text", kind());
      scratch.at_start = false;
      scratch.in_middle = true;
    }
  }
  return scratch.unknown;
}

UnknownBytes Tokenizer::encode(std::string_view text, const EncodeOptions& options,
                               EncodeCache& cache, std::vector<int32_t>& ids) const {
  std::string repaired;
  if (!options.exact_bytes && !is_valid_utf8(text)) {
    repaired = lossy_utf8(text);
    text = repaired;
  }
  const auto append = [&](const std::vector<int32_t>& more) {
    if (options.add_special_tokens) ids.insert(ids.end(), more.begin(), more.end());
  };
  append(around_.before);
  const UnknownBytes unknown = encode(text, options, cache, ids, nullptr);
  append(around_.after);
  return unknown;
}

UnknownBytes Tokenizer::encode(std::string_view text, const EncodeOptions& options,
                               EncodeCache& cache, std::vector<int32_t>& ids,
                               std::vector<TokenSpan>& spans) const {
  VIADUCT_CHECK(ConfigError, model_->tells_places() && !options.exact_bytes,
                "offsets are those of characters of a text: a tokenizer of kind {} {}", kind(),
                model_->tells_places() ? "has none for exact bytes" : "does not tell them");
  const std::string whole = lossy_utf8(text);
  const auto append = [&](const std::vector<int32_t>& more) {
    if (!options.add_special_tokens) return;
    ids.insert(ids.end(), more.begin(), more.end());
    spans.resize(spans.size() + more.size());
  };
  append(around_.before);
  TokenPlaces places;
  const UnknownBytes unknown = encode(whole, options, cache, ids, &places);
  const auto found = places.spans(whole, around_.trims, options.add_special_tokens);
  spans.insert(spans.end(), found.begin(), found.end());
  append(around_.after);
  return unknown;
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
  if (added != nullptr) {
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
  for (size_t i = 0; i < ids.size(); ++i) {
    VIADUCT_CHECK(IoError, token(ids[i]).has_value(),
                  "cannot decode id {} (at {}): no token of this vocabulary of {}", ids[i], i,
                  vocab_size_);
  }
  return shown_text(*this, ids);
}

std::optional<int32_t> Tokenizer::find(std::string_view token) const {
  if (const AddedToken* added = added_.find(token)) return added->id;
  return model_->find(token);
}

std::optional<std::string> Tokenizer::token(int32_t id) const {
  if (const AddedToken* added = added_.find(id)) return added->content;
  return model_->token(id);
}

bool Tokenizer::is_special(int32_t id) const {
  const auto spelling = token(id);
  const AddedToken* added = spelling ? added_.find(*spelling) : nullptr;
  return added != nullptr && added->special;
}

bool Tokenizer::is_left_out(int32_t id) const {
  const AddedToken* added = added_.find(id);
  if (added == nullptr || added->searched.empty()) return is_special(id);
  const AddedToken* shown = added_.find(added->searched);
  return shown != nullptr && shown->special;
}

std::string Tokenizer::unknown_bytes_became() const {
  const auto unknown = model_->unknown_token();
  return unknown ? "became " + token(*unknown).value_or("the unknown token") : "left out";
}

DecodeStream::DecodeStream(const Tokenizer& tokenizer, std::span<const int32_t> before)
    : tokenizer_(tokenizer) {
  if (tokenizer.cleans_spaces_) cleanup_.emplace();
  for (const int32_t id : before) push(id);
  if (!before.empty()) before_end_ = DecodeStream(*this).finish();
}

std::string DecodeStream::push(int32_t id) {
  if (!tokenizer_.decode_text(id, state_, held_)) append_utf8(held_, 0xFFFD);
  const size_t whole = held_.size() - unfinished_utf8_bytes(held_);
  std::string text = lossy_utf8(std::string_view(held_).substr(0, whole));
  held_.erase(0, whole);
  return beyond(cleanup_ ? cleanup_->push(std::move(text)) : std::move(text));
}

std::string DecodeStream::finish() {
  if (tokenizer_.decoder_) {
    RegexScratch scratch;
    tokenizer_.decoder_->finish(state_, scratch, held_);
  }
  std::string text = lossy_utf8(held_);
  held_.clear();
  state_ = {};
  if (cleanup_) {
    text = cleanup_->push(std::move(text));
    text += cleanup_->finish();
  }
  return beyond(std::move(text));
}

std::string DecodeStream::beyond(std::string more) {
  const auto differ =
      std::mismatch(more.begin(), more.end(), before_end_.begin(), before_end_.end());
  auto same = static_cast<size_t>(differ.first - more.begin());
  if (same == more.size()) {
    before_end_.erase(0, same);
    return "";
  }
  before_end_.clear();
  while (same > 0 && (more[same] & 0xC0) == 0x80) --same;  // whole characters
  return more.substr(same);
}

std::string shown_text(const Tokenizer& tokenizer, std::span<const int32_t> ids,
                       std::span<const int32_t> before) {
  DecodeStream stream(tokenizer, before);
  std::string text;
  for (const int32_t id : ids) text += stream.push(id);
  return text + stream.finish();
}

}  // namespace viaduct
