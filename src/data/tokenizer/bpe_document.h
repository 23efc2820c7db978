#pragma once
// Parts of a tokenizer.json (Hugging Face's format) of a byte-level BPE, for its writers.

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace viaduct {

/// Members keep the order in which they are written.
using BpeJson = nlohmann::ordered_json;

/// The step ByteLevel; `cuts`: with its own regular expression.
BpeJson byte_level_json(bool cuts);
/// An added token with exact matches only.
BpeJson added_token_json(size_t id, std::string_view content, bool special);
/// Tokens with their ids, and merges "left right" in order of rank.
BpeJson bpe_model_json(BpeJson vocabulary, BpeJson merges, bool ignore_merges);
/// Adds a member at the end of an object. operator[] would search all members first.
void append_member(BpeJson& object, const std::string& key, size_t value);

}  // namespace viaduct
