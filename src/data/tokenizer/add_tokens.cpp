#include "data/tokenizer/add_tokens.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <initializer_list>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include "base/error.h"
#include "base/json.h"
#include "base/json_members.h"
#include "base/json_reader.h"
#include "base/units.h"
#include "data/tokenizer/byte_alphabet.h"
#include "data/tokenizer/new_tokens.h"
#include "data/tokenizer/special_tokens.h"
#include "data/tokenizer/tokenizer_files.h"
#include "data/tokenizer/tokenizer_json.h"
#include "data/tokenizer/tokenizer_json_list.h"

namespace viaduct {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char *kDecoder = "added_tokens_decoder", *kExtra = "extra_special_tokens",
                     *kAdditional = "additional_special_tokens";

/// What the files say of one token; `id`: as tokenizer.json has it.
Json entry_of(const AddedToken& token, bool id) {
  Json entry = Json::object();
  if (id) entry["id"] = token.id;
  entry["content"] = token.content;
  entry["single_word"] = token.single_word;
  entry["lstrip"] = token.lstrip;
  entry["rstrip"] = token.rstrip;
  entry["normalized"] = token.normalized;
  entry["special"] = token.special;
  return entry;
}

/// An entry of a list that is indented by two.
std::string indented(const Json& entry) {
  std::string text = entry.dump(2);
  for (size_t at = text.find('\n'); at != std::string::npos; at = text.find('\n', at + 1))
    text.insert(at + 1, "    ");
  return text;
}

bool has_list(const Json& file, const char* name) {
  const auto found = file.find(name);
  return found != file.end() && found->is_array();
}

/// One change of a tokenizer's files.
class Change {
 public:
  Change(const Tokenizer& tokenizer, std::map<std::string, std::string>& files,
         const std::filesystem::path& where)
      : tokenizer_(tokenizer), files_(files), where_(where) {}

  void write(const std::vector<AddedToken>& tokens) {
    const bool whole = files_.contains(kTokenizerFile);
    if (whole) write_tokenizer_json(tokens);
    const bool listed = write_decoder(tokens);
    if (files_.contains(kAddedTokensFile) || (!whole && !listed)) write_added_tokens(tokens);
    std::vector<std::string> special;
    for (const AddedToken& token : tokens)
      if (token.special) special.push_back(token.content);
    if (special.empty()) return;
    // Without tokenizer.json and a list of all tokens only a name makes one special.
    if (files_.contains(kTokenizerConfigurationFile) || (!whole && !listed))
      name_special(kTokenizerConfigurationFile, special);
    if (files_.contains(kSpecialTokensFile)) name_special(kSpecialTokensFile, special);
  }

 private:
  Json read(const char* name) const {
    const auto found = files_.find(name);
    if (found == files_.end()) return Json::object();
    return parse_json<Json>(found->second, (where_ / name).string());
  }
  void store(const char* name, const Json& json) { files_[name] = json.dump(2) + "\n"; }

  /// Also those that only other files have had so far: ids follow from the order of this list.
  void write_tokenizer_json(const std::vector<AddedToken>& tokens) {
    const std::string source = (where_ / kTokenizerFile).string();
    std::string& text = files_.at(kTokenizerFile);
    std::set<std::string> known;
    for (const AddedToken& token :
         parse_tokenizer_json(text, source, UnsupportedModel::left_to_other_files).added)
      known.insert(token.content);
    std::vector<AddedToken> lacking = tokenizer_.added_tokens().tokens();
    std::erase_if(lacking, [&](const AddedToken& token) { return known.contains(token.content); });
    std::ranges::sort(lacking, {}, &AddedToken::id);
    lacking.insert(lacking.end(), tokens.begin(), tokens.end());
    std::vector<std::string> entries;
    for (const AddedToken& token : lacking) entries.push_back(indented(entry_of(token, true)));
    text = with_longer_list(text, "added_tokens", entries, source);
  }

  /// False where the configuration has no list of all tokens.
  bool write_decoder(const std::vector<AddedToken>& tokens) {
    Json config = read(kTokenizerConfigurationFile);
    const auto decoder = config.find(kDecoder);
    if (decoder == config.end() || !decoder->is_object()) return false;
    for (const AddedToken& token : tokens)
      (*decoder)[std::to_string(token.id)] = entry_of(token, false);
    store(kTokenizerConfigurationFile, config);
    return true;
  }

  void write_added_tokens(const std::vector<AddedToken>& tokens) {
    Json list = read(kAddedTokensFile);
    for (const AddedToken& token : tokens) list[token.content] = token.id;
    store(kAddedTokensFile, list);
  }

  /// Special tokens that have no role ("eos_token"): what a class counts by itself, and does not
  /// where a file has a list.
  std::vector<std::string> special_without_role() const {
    const auto& named = tokenizer_.special_ids().named;
    std::vector<std::string> contents;
    for (const AddedToken& token : tokenizer_.added_tokens().tokens()) {
      const bool role =
          std::ranges::any_of(named, [&](const auto& entry) { return entry.second == token.id; });
      if (token.special && !role) contents.push_back(token.content);
    }
    return contents;
  }

  /// At the end of the list that counts (SpecialTokens::read_configuration).
  void name_special(const char* file, const std::vector<std::string>& contents) {
    Json json = read(file);
    const bool extra = has_list(json, kExtra), additional = has_list(json, kAdditional);
    const char* name = extra && (!additional || !json[kExtra].empty()) ? kExtra : kAdditional;
    if (!extra && !additional) {
      json[kAdditional] = Json::array();
      if (!files_.contains(kTokenizerFile))
        for (const std::string& content : special_without_role())
          json[kAdditional].push_back(content);
    }
    for (const std::string& content : contents) {
      const Json& list = json[name];
      const bool there =
          std::any_of(list.begin(), list.end(), [&](const Json& each) { return each == content; });
      if (!there) json[name].push_back(content);
    }
    store(file, json);
  }

  const Tokenizer& tokenizer_;
  std::map<std::string, std::string>& files_;
  const std::filesystem::path& where_;
};

constexpr const char* kSearchedByClass =
    "looked for in the text before or after its normalizer as the tokenizer's class has it, and "
    "not "
    "as \"normalized\" says";

/// Without a tokenizer.json the class may decide `normalized`: sets it, and returns the contents of
/// the tokens for which it says otherwise.
std::vector<std::string> take_search(const Tokenizer& after, std::vector<AddedToken>& tokens) {
  std::vector<std::string> changed;
  for (AddedToken& token : tokens) {
    const AddedToken* now = after.added_tokens().find(token.content);
    if (now == nullptr || now->normalized == token.normalized) continue;
    token.normalized = now->normalized;
    changed.push_back(token.content);
  }
  return changed;
}

/// Whether the letters of a token are taken for bytes where ids become text: "Ä" is how the
/// vocabulary of a byte-level model spells the byte C4.
bool decodes_to_other_text(const Tokenizer& tokenizer, const AddedToken& token) {
  const auto bytes = unspell_bytes(token.content);
  return bytes && *bytes != token.content && tokenizer.decode_text({&token.id, 1}) != token.content;
}

/// The flags in which two added tokens differ, as the files name them: "single_word, lstrip".
std::string changed_flags(const AddedToken& token, const AddedToken& now) {
  std::vector<const char*> flags;
  for (const auto& [name, flag] : std::initializer_list<std::pair<const char*, bool AddedToken::*>>{
           {"single_word", &AddedToken::single_word},
           {"lstrip", &AddedToken::lstrip},
           {"rstrip", &AddedToken::rstrip},
           {"normalized", &AddedToken::normalized},
           {"special", &AddedToken::special}})
    if (token.*flag != now.*flag) flags.push_back(name);
  return fmt::format("{}", fmt::join(flags, ", "));
}

/// What the changed files mean otherwise than they should; "" if nothing.
std::string difference(const Tokenizer& before, const Tokenizer& after,
                       const std::vector<AddedToken>& tokens) {
  for (const std::vector<AddedToken>* each : {&before.added_tokens().tokens(), &tokens}) {
    for (const AddedToken& token : *each) {
      const AddedToken* now = after.added_tokens().find(token.content);
      const std::string name =
          fmt::format("the token \"{}\" of id {}", shown_name(token.content), token.id);
      if (now == nullptr || now->id != token.id) return name;
      const std::string flags = changed_flags(token, *now);
      if (!flags.empty()) return fmt::format("{} of {}", flags, name);
    }
  }
  const SpecialIds &old = before.special_ids(), &now = after.special_ids();
  // A tokenizer that had none may get one by the name of a new token.
  const auto moved = [](const auto& then, const auto& here) { return then && then != here; };
  if (moved(old.bos, now.bos) || moved(old.eos, now.eos) || moved(old.pad, now.pad))
    return "the token that begins, ends or pads a text";
  const auto around = [](const TokenTemplate& ids) { return std::tie(ids.before, ids.after); };
  if (around(before.around()) != around(after.around())) return "the tokens around a text";
  if (before.model().token_count() != after.model().token_count()) return "the vocabulary";
  return "";
}

}  // namespace

GrownTokenizer add_tokens(const Tokenizer& tokenizer, std::map<std::string, std::string> files,
                          const std::filesystem::path& where,
                          const std::vector<AddedToken>& tokens) {
  GrownTokenizer grown;
  std::vector<AddedToken> added;
  std::vector<std::string> known, words, spellings, unreadable;
  const TokenModel& model = tokenizer.model();
  int32_t next = model.token_count();
  for (const AddedToken& token : tokenizer.added_tokens().tokens())
    next = std::max(next, token.id + 1);
  for (AddedToken token : tokens) {
    if (tokenizer.added_tokens().find(token.content) != nullptr) {
      known.push_back(token.content);
      continue;
    }
    if (const auto id = model.find(token.content)) {
      token.id = *id;
      (decodes_to_other_text(tokenizer, token) ? spellings : words).push_back(token.content);
    } else {
      while (model.token(next)) ++next;  // ids of the model may have gaps
      token.id = next++;
      grown.fresh.push_back(token);
    }
    added.push_back(std::move(token));
  }
  const auto note = [&](const std::vector<std::string>& contents, const char* what) {
    if (contents.empty()) return;
    grown.notes.push_back(fmt::format("{} ({}): {}", what, counted(std::ssize(contents), "token"),
                                      shown_tokens(contents)));
  };
  note(known, "added tokens already, which stay as they are");
  note(words,
       "in the vocabulary already, and from now on added tokens with their ids and rows, which no "
       "text cuts");
  note(spellings,
       "in the vocabulary already, but as the letters that spell other bytes, which the model "
       "learned: now added tokens with the ids and rows of these bytes, and no tokens of their own "
       "text; decoding gives the bytes (transformers does the same)");
  VIADUCT_CHECK(ConfigError, !added.empty(),
                "--add-tokens: all tokens of the file are added tokens of {} already: {}",
                where.string(), shown_tokens(known));
  Change(tokenizer, files, where).write(added);
  const Tokenizer after = load_tokenizer(TokenizerFiles(where, files));
  if (!files.contains(kTokenizerFile)) note(take_search(after, added), kSearchedByClass);
  const std::string other = difference(tokenizer, after, added);
  VIADUCT_CHECK(ConfigError, other.empty(),
                "--add-tokens: {} would not be what it was or was to be in the tokenizer files of "
                "{}, which cannot hold these tokens; those of a tokenizer.json of the same "
                "tokenizer can (in transformers: "
                "AutoTokenizer.from_pretrained(FOLDER).save_pretrained(OTHER))",
                other, where.string());
  for (const AddedToken& token : grown.fresh)
    if (decodes_to_other_text(after, token)) unreadable.push_back(token.content);
  note(unreadable,
       "new tokens that are not decoded to their text: the tokenizer's decoder takes all of their "
       "letters for spellings of bytes (transformers does the same)");
  grown.vocab_size = after.vocab_size();
  grown.files = std::move(files);
  return grown;
}

}  // namespace viaduct
