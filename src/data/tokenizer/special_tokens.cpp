#include "data/tokenizer/special_tokens.h"

#include <algorithm>
#include <iterator>

#include "base/error.h"
#include "base/json.h"
#include "base/json_members.h"
#include "base/json_reader.h"
#include "data/tokenizer/tokenizer_json.h"

namespace viaduct {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

bool is_kept_token(const ordered_json& value) {
  return value.is_object() && value.contains("__type");
}

/// A string, or an object with "content"; nothing for what is no token. An object that says that it
/// is one ("__type") has flags of its own in a configuration; all others are special.
std::optional<SpecialToken> special_token(const ordered_json& value, bool in_map,
                                          const std::string& source) {
  SpecialToken token;
  if (value.is_string()) {
    token.content = value.get<std::string>();
    token.special = true;
  } else if (value.is_object() && value.contains("content") && value["content"].is_string()) {
    json given = value;
    const bool marked = !in_map && is_kept_token(value);
    if (!marked) given["special"] = true;
    token = {parse_added_token(given, 0, source),
             marked ? SpecialToken::Form::marked_object : SpecialToken::Form::object};
  }
  return token.content.empty() ? std::nullopt : std::optional(std::move(token));
}

std::vector<SpecialToken> tokens_of(const ordered_json& list, bool in_map,
                                    const std::string& source) {
  std::vector<SpecialToken> tokens;
  for (const auto& value : list) {
    if (auto token = special_token(value, in_map, source)) tokens.push_back(std::move(*token));
  }
  return tokens;
}

bool has_content(const auto& members, const std::string& content) {
  return std::any_of(members.begin(), members.end(),
                     [&](const auto& member) { return member.second.content == content; });
}

void set(auto& members, const std::string& key, const SpecialToken& token) {
  const auto known = std::find_if(members.begin(), members.end(),
                                  [&](const auto& member) { return member.first == key; });
  if (known == members.end()) {
    members.emplace_back(key, token);
  } else {
    known->second = token;
  }
}

}  // namespace

struct SpecialTokens::Document {
  ordered_json content;
  std::string source;
  bool is_map = false;

  /// A list of tokens, or an object of tokens with names of their own.
  std::optional<ordered_json> list(const char* name) const {
    const auto found = content.find(name);
    if (found == content.end() || found->is_null()) return std::nullopt;
    VIADUCT_CHECK(IoError, found->is_array() || found->is_object(),
                  "{}: {} must be a list or an object, found {}", source, name, found->type_name());
    return *found;
  }
};

SpecialTokens::Document SpecialTokens::read_document(const TokenizerFiles& files, const char* name,
                                                     bool is_map) {
  Document document{{}, files.where(name), is_map};
  document.content = parse_json<ordered_json>(files.text(name), document.source);
  VIADUCT_CHECK(IoError, document.content.is_object(), "{}: must be an object, found {}",
                document.source, document.content.type_name());
  for (const auto& [key, value] : document.content.items()) {
    const bool named = std::any_of(std::begin(kTokenRoles), std::end(kTokenRoles),
                                   [&key = key](const char* name) { return key == name; });
    if (!named && (!key.ends_with("_token") || key.starts_with("add_"))) continue;
    if (named) given_.insert(key);
    const auto token = special_token(value, is_map, document.source);
    if (!token) {
      if (named) named_.erase(key);  // null in the map takes the configuration's away
    } else if (named) {
      named_[key] = *token;
    } else if (value.is_string() && !is_map) {
      set(own_, key, *token);
    } else if (value.is_string() || is_map || is_kept_token(value)) {
      set(first_, key, *token);
    }
  }
  return document;
}

void SpecialTokens::take_extra(const ordered_json& extra, const Document& document) {
  if (extra.is_object()) {
    extra_.reset();
    for (const auto& [key, value] : extra.items()) {
      if (const auto token = special_token(value, document.is_map, document.source))
        set(own_, key, *token);
    }
    return;
  }
  if (!extra_) extra_.emplace();
  const auto tokens = tokens_of(extra, document.is_map, document.source);
  extra_->insert(extra_->end(), tokens.begin(), tokens.end());
}

void SpecialTokens::read_configuration(const TokenizerFiles& files) {
  const Document document = read_document(files, kTokenizerConfigurationFile, false);
  auto extra = document.list("extra_special_tokens");
  auto additional = document.list("additional_special_tokens");
  if (additional && (!extra || extra->empty())) std::swap(extra, additional);
  if (extra) take_extra(*extra, document);
  if (additional && !additional->empty())
    additional_ = tokens_of(*additional, false, document.source);
  // transformers 5 writes it, and forgets it where other members give names.
  const auto specific = document.list("model_specific_special_tokens");
  if (!specific || !own_.empty()) return;
  VIADUCT_CHECK(IoError, specific->is_object(),
                "{}: model_specific_special_tokens must be an object, found {}", document.source,
                specific->type_name());
  for (const auto& [key, value] : specific->items()) {
    if (const auto token = special_token(value, false, document.source)) set(own_, key, *token);
  }
}

void SpecialTokens::read_map(const TokenizerFiles& files) {
  const Document document = read_document(files, kSpecialTokensFile, true);
  if (const auto extra = document.list("extra_special_tokens")) take_extra(*extra, document);
  if (const auto additional = document.list("additional_special_tokens"))
    additional_ = tokens_of(*additional, false, document.source);  // marked ones keep their flags
}

std::vector<SpecialToken> SpecialTokens::in_order() const {
  std::vector<SpecialToken> tokens;
  for (const char* name : kTokenRoles) {
    if (const auto found = named_.find(name); found != named_.end())
      tokens.push_back(found->second);
  }
  Members own = first_;
  for (const auto& [key, token] : own_) set(own, key, token);
  for (const auto& [key, token] : own) tokens.push_back(token);
  const auto& rest = extra_ ? *extra_ : additional_;
  tokens.insert(tokens.end(), rest.begin(), rest.end());
  return tokens;
}

void SpecialTokens::set_additional(const std::vector<AddedToken>& tokens) {
  additional_.clear();
  for (const AddedToken& token : tokens) additional_.push_back({token, SpecialToken::Form::text});
}

void SpecialTokens::name_by_default(const std::string& name, const std::string& content) {
  if (!given_.insert(name).second || content.empty()) return;
  SpecialToken token;
  token.content = content;
  token.special = true;
  named_[name] = token;
}

std::optional<std::string> SpecialTokens::named(const std::string& name) const {
  const auto found = named_.find(name);
  return found == named_.end() ? std::nullopt : std::optional(found->second.content);
}

bool SpecialTokens::is_named(const std::string& content) const {
  return has_content(named_, content) || has_content(first_, content) || has_content(own_, content);
}

bool SpecialTokens::is_special(const std::string& content) const {
  const auto is_it = [&](const SpecialToken& token) {
    return token.content == content && token.form != SpecialToken::Form::marked_object;
  };
  return std::any_of(named_.begin(), named_.end(),
                     [&](const auto& member) { return is_it(member.second); }) ||
         (extra_ && std::any_of(extra_->begin(), extra_->end(), is_it));
}

}  // namespace viaduct
