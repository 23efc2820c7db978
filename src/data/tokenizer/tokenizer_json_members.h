#pragma once
// Which members the objects of a `tokenizer.json` must have. Files that Hugging Face's tokenizers
// does not load are refused here too: nobody could say which ids they give.

#include <initializer_list>
#include <nlohmann/json_fwd.hpp>
#include <string_view>

namespace viaduct {

/// What a member holds; `or_null`: also null.
enum class JsonKind {
  boolean,
  boolean_or_null,
  text,
  text_or_null,
  character,  // a text of one code point
  count,      // an integer from 0, of 64 bits
  count_or_null,
  id,  // an integer from 0, of 32 bits
  list,
  object
};

struct JsonMember {
  std::string_view name;
  JsonKind kind;
  bool required = true;
};

/// Whether `object` is an object with these members; others are not looked at. IoError that names
/// the object (`what`, as in "added token 3"), the member, and what was expected and found.
void check_members(const nlohmann::json& object, std::string_view what,
                   std::initializer_list<JsonMember> members, std::string_view source);

/// `check_members` of a step of type `type` in `part` ("the normalizer", "the pre_tokenizer", "the
/// decoder", "the post_processor"). Types that are not supported are not looked at.
void check_step_members(const nlohmann::json& step, std::string_view part, std::string_view type,
                        std::string_view source);

/// The members of the whole file beside its steps, model and added tokens: version, truncation and
/// padding, which have no effect; others are refused.
void check_document_members(const nlohmann::json& document, std::string_view source);

}  // namespace viaduct
