#include "data/tokenizer/folder_tokens.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>
#include <tuple>
#include <unordered_map>
#include <unordered_set>

#include "base/error.h"
#include "base/json.h"
#include "base/json_members.h"
#include "base/json_reader.h"
#include "data/tokenizer/token_id.h"
#include "data/tokenizer/tokenizer_json.h"

namespace viaduct {
namespace {

using nlohmann::json;

constexpr const char *kConfiguration = "tokenizer_config.json", *kMap = "special_tokens_map.json";
constexpr const char* kNamed[] = {"bos_token", "eos_token", "unk_token", "sep_token",
                                  "pad_token", "cls_token", "mask_token"};

std::map<int32_t, AddedToken> read_decoder(const json& decoder, const std::string& source) {
  VIADUCT_CHECK(IoError, decoder.is_object(), "{}: added_tokens_decoder must be an object", source);
  std::map<int32_t, AddedToken> tokens;
  for (const auto& [key, value] : decoder.items()) {
    int32_t id = -1;
    const auto end = key.data() + key.size();
    const auto [stop, error] = std::from_chars(key.data(), end, id);
    VIADUCT_CHECK(IoError, error == std::errc() && stop == end && id >= 0,
                  "{}: added_tokens_decoder has the key \"{}\", expected an id", source, key);
    tokens[id] = parse_added_token(value, id, source);
  }
  return tokens;
}

/// A string, or an object with "content"; nothing for what is no token.
std::optional<AddedToken> special_token(const json& value, const std::string& source) {
  AddedToken token;
  if (value.is_string()) {
    token.content = value.get<std::string>();
  } else if (value.is_object() && find_member(value, "content") != nullptr) {
    token = parse_added_token(value, 0, source);
  }
  token.special = true;
  return token.content.empty() ? std::nullopt : std::optional(std::move(token));
}

/// All that two spellings of a token may differ in.
auto flags_of(const AddedToken& token) {
  return std::tie(token.content, token.single_word, token.lstrip, token.rstrip, token.normalized,
                  token.special);
}

}  // namespace

/// The special tokens that the configuration and the map name, in the order in which `transformers`
/// adds them, which follows that of the members in the files.
class FolderTokens::Special {
 public:
  void read_configuration(const TokenizerFiles& files) {
    const Document document = read_document(files, kConfiguration, configured_);
    auto extra = list_of(document, "extra_special_tokens");
    auto additional = list_of(document, "additional_special_tokens");
    if (additional && (!extra || extra->empty())) std::swap(extra, additional);
    if (extra) take_extra(*extra, document.source);
    if (additional && !additional->empty()) additional_ = tokens_of(*additional, document.source);
  }

  void read_map(const TokenizerFiles& files) {
    const Document document = read_document(files, kMap, mapped_);
    if (const auto extra = list_of(document, "extra_special_tokens"))
      take_extra(*extra, document.source);
    if (const auto additional = list_of(document, "additional_special_tokens"))
      additional_ = tokens_of(*additional, document.source);
  }

  std::vector<AddedToken> in_order() const {
    std::vector<AddedToken> tokens;
    for (const char* name : kNamed) {
      if (const auto found = named_.find(name); found != named_.end())
        tokens.push_back(found->second);
    }
    Members own = mapped_;
    for (const auto& [key, token] : configured_) set(own, key, token);
    for (const auto& [key, token] : own) tokens.push_back(token);
    const auto& rest = extra_ ? *extra_ : additional_;
    tokens.insert(tokens.end(), rest.begin(), rest.end());
    return tokens;
  }
  /// A name that the files do not give.
  void name_by_default(const std::string& name, const std::string& content) {
    if (given_.count(name) > 0) return;
    AddedToken token;
    token.content = content;
    token.special = true;
    named_[name] = token;
  }
  void set_additional(std::vector<AddedToken> tokens) { additional_ = std::move(tokens); }
  std::optional<std::string> named(const std::string& name) const {
    const auto found = named_.find(name);
    return found == named_.end() ? std::nullopt : std::optional(found->second.content);
  }
  bool is_named(const std::string& content) const {
    return std::any_of(named_.begin(), named_.end(),
                       [&](const auto& entry) { return entry.second.content == content; });
  }
  bool has(const std::string& content) const {
    return is_named(content) ||
           (extra_ && std::any_of(extra_->begin(), extra_->end(), [&](const AddedToken& token) {
              return token.content == content;
            }));
  }

 private:
  /// Tokens with names of their own: "image_token" and the like.
  using Members = std::vector<std::pair<std::string, AddedToken>>;
  struct Document {
    nlohmann::ordered_json content;
    std::string source;
  };

  static void set(Members& members, const std::string& key, const AddedToken& token) {
    const auto known = std::find_if(members.begin(), members.end(),
                                    [&](const auto& member) { return member.first == key; });
    if (known == members.end()) {
      members.emplace_back(key, token);
    } else {
      known->second = token;
    }
  }

  Document read_document(const TokenizerFiles& files, const char* name, Members& own) {
    Document document{{}, files.where(name)};
    document.content = parse_json<nlohmann::ordered_json>(files.text(name), document.source);
    VIADUCT_CHECK(IoError, document.content.is_object(), "{}: must be an object, found {}",
                  document.source, document.content.type_name());
    for (const auto& [key, value] : document.content.items()) {
      const bool named =
          std::find_if(std::begin(kNamed), std::end(kNamed),
                       [&key = key](const char* name) { return key == name; }) != std::end(kNamed);
      if (!named && (!key.ends_with("_token") || key.starts_with("add_") || !value.is_string()))
        continue;
      if (named) given_.insert(key);
      const auto token = special_token(json(value), document.source);
      if (!token) continue;
      if (named) {
        named_[key] = *token;
      } else {
        set(own, key, *token);
      }
    }
    return document;
  }

  static std::optional<nlohmann::ordered_json> list_of(const Document& document, const char* name) {
    const auto found = document.content.find(name);
    if (found == document.content.end() || found->is_null()) return std::nullopt;
    VIADUCT_CHECK(IoError, found->is_array() || found->is_object(),
                  "{}: {} must be a list or an object, found {}", document.source, name,
                  found->type_name());
    return *found;
  }

  static std::vector<AddedToken> tokens_of(const nlohmann::ordered_json& list,
                                           const std::string& source) {
    std::vector<AddedToken> tokens;
    for (const auto& value : list) {
      if (auto token = special_token(json(value), source)) tokens.push_back(std::move(*token));
    }
    return tokens;
  }

  void take_extra(const nlohmann::ordered_json& extra, const std::string& source) {
    if (extra.is_object()) {
      extra_.reset();
      for (const auto& [key, value] : extra.items()) {
        if (const auto token = special_token(json(value), source)) set(configured_, key, *token);
      }
      return;
    }
    if (!extra_) extra_.emplace();
    const auto tokens = tokens_of(extra, source);
    extra_->insert(extra_->end(), tokens.begin(), tokens.end());
  }

  std::map<std::string, AddedToken> named_;
  std::unordered_set<std::string> given_;  // names of the files, also those of no token
  Members configured_, mapped_;
  std::optional<std::vector<AddedToken>> extra_;
  std::vector<AddedToken> additional_;  // count where there are no extra ones
};

FolderTokens::FolderTokens(const TokenizerFiles& files) : special_(std::make_unique<Special>()) {
  const auto config = files.object(kConfiguration);
  const json* decoder = config ? find_member(*config, "added_tokens_decoder") : nullptr;
  if (config) special_->read_configuration(files);
  if (decoder != nullptr) {
    listed_ = read_decoder(*decoder, files.where(kConfiguration));
    return;
  }
  if (files.has(kMap)) special_->read_map(files);
  constexpr const char* kAdded = "added_tokens.json";
  const auto document = files.object(kAdded);
  if (!document) return;
  for (auto& [content, id] : parse_vocabulary(*document, files.where(kAdded))) {
    AddedToken& token = listed_[id];
    token.id = id;
    token.content = content;
    token.special = special_->has(content);
    token.normalized = !token.special;
  }
}

FolderTokens::~FolderTokens() = default;

void FolderTokens::name_by_default(const std::string& name, const std::string& content) {
  special_->name_by_default(name, content);
}

void FolderTokens::set_additional(std::vector<AddedToken> tokens) {
  special_->set_additional(std::move(tokens));
}

std::optional<std::string> FolderTokens::named(const std::string& name) const {
  return special_->named(name);
}

void FolderTokens::add_to(std::vector<AddedToken>& added, const TokenModel& model,
                          bool ids_as_given) const {
  std::unordered_map<std::string, size_t> place;
  int32_t next = model.token_count();
  for (size_t i = 0; i < added.size(); ++i) {
    place.emplace(added[i].content, i);
    next = std::max(next, added[i].id + 1);
  }
  const auto put = [&](AddedToken token, bool has_id) {
    if (const auto known = place.find(token.content); known != place.end()) {
      token.id = added[known->second].id;
      added[known->second] = std::move(token);
      return;
    }
    if (const auto in_model = model.find(token.content)) {
      token.id = *in_model;
    } else if (!(has_id && ids_as_given)) {
      while (model.token(next)) ++next;  // ids of the model may have gaps
      token.id = next++;
    } else {
      next = std::max(next, token.id + 1);
    }
    place.emplace(token.content, added.size());
    added.push_back(std::move(token));
  };
  for (auto [id, token] : listed_) {
    token.special |= special_->is_named(token.content);
    put(std::move(token), true);
  }
  // Of several spellings of one new token the last that is not a repetition counts.
  std::unordered_set<std::string> known;
  for (const auto& [content, at] : place) known.insert(content);
  std::vector<AddedToken> seen;
  for (AddedToken& token : special_->in_order()) {
    const bool repeated = std::any_of(seen.begin(), seen.end(), [&](const AddedToken& earlier) {
      return flags_of(earlier) == flags_of(token);
    });
    if (repeated || known.count(token.content) > 0) continue;
    seen.push_back(token);
    put(std::move(token), false);
  }
}

}  // namespace viaduct
