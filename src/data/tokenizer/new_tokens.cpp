#include "data/tokenizer/new_tokens.h"

#include <algorithm>
#include <array>
#include <tuple>
#include <unordered_map>

#include "base/error.h"
#include "base/file.h"
#include "base/given_path.h"
#include "base/json.h"
#include "base/json_reader.h"
#include "base/nearest.h"
#include "base/units.h"
#include "base/user_input.h"
#include "data/tokenizer/tokenizer_json.h"
#include "data/tokenizer/unicode.h"

namespace viaduct {
namespace {

using nlohmann::json;

constexpr size_t kMostBytes = size_t{64} << 20, kMostTokenBytes = 4096;
constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
constexpr std::array<const char*, 6> kMembers{"content", "special", "single_word",
                                              "lstrip",  "rstrip",  "normalized"};

AddedToken token_of_object(std::string_view line, const std::string& where) {
  const json value = read_user_input([&] { return parse_json<json>(line, where); });
  VIADUCT_CHECK(ConfigError, value.is_object() && value.contains("content"),
                "{}: expected an object with \"content\", the text of a token", where);
  for (const auto& [name, member] : value.items()) {
    if (std::ranges::find(kMembers, name) != kMembers.end()) continue;
    const auto near = nearest_name(name, {kMembers.begin(), kMembers.end()});
    fail<ConfigError>(
        "{}: unknown member \"{}\"{}; expected content, and special, single_word, "
        "lstrip, rstrip, normalized",
        where, shown_name(name), near ? ", nearest: " + *near : "");
  }
  return read_user_input([&] { return parse_added_token(value, 0, where); });
}

AddedToken token_of_text(std::string_view line, const std::string& where) {
  VIADUCT_CHECK(ConfigError, !line.starts_with("{\"content\""),
                "{}: looks like JSONL, but a file of that has a name that ends in .jsonl; in other "
                "files a line is a token as it stands",
                where);
  AddedToken token;
  token.content = line;
  token.normalized = true;
  return token;
}

auto flags_of(const AddedToken& token) {
  return std::tie(token.special, token.single_word, token.lstrip, token.rstrip, token.normalized);
}

}  // namespace

std::string shown_tokens(const std::vector<std::string>& contents) {
  constexpr size_t kMost = 5;
  std::string text;
  for (size_t i = 0; i < std::min(contents.size(), kMost); ++i)
    text += fmt::format("{}\"{}\"", i > 0 ? ", " : "", shown_name(contents[i]));
  if (contents.size() > kMost) text += fmt::format(" and {} more", contents.size() - kMost);
  return text;
}

NewTokens read_new_tokens(const std::filesystem::path& file) {
  check_given_path("--add-tokens ", file, "a file with one token a line, or JSONL");
  const std::string text = read_file(file, kMostBytes);
  const bool objects = file.extension() == ".jsonl";
  NewTokens read;
  std::unordered_map<std::string, std::pair<size_t, size_t>> seen;  // place in tokens, line
  std::vector<std::string> repeated;
  int64_t empty = 0;
  size_t number = 0;
  std::string_view rest = text;
  if (rest.starts_with(kByteOrderMark)) rest.remove_prefix(kByteOrderMark.size());
  while (!rest.empty()) {
    const size_t end = std::min(rest.find('\n'), rest.size());
    std::string_view line = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    if (line.ends_with('\r')) line.remove_suffix(1);
    const std::string where = fmt::format("{}:{}", file.string(), ++number);
    if (line.empty()) {
      ++empty;
      continue;
    }
    VIADUCT_CHECK(ConfigError, is_valid_utf8(line),
                  "{}: not UTF-8 (byte {} of the line); a token is a text", where,
                  ill_formed_utf8(line).first);
    AddedToken token = objects ? token_of_object(line, where) : token_of_text(line, where);
    VIADUCT_CHECK(ConfigError, token.content.size() <= kMostTokenBytes,
                  "{}: a token of {} bytes, at most {} are supported", where, token.content.size(),
                  kMostTokenBytes);
    const auto [known, fresh] =
        seen.try_emplace(token.content, std::pair(read.tokens.size(), number));
    if (fresh) {
      read.tokens.push_back(std::move(token));
      continue;
    }
    VIADUCT_CHECK(ConfigError, flags_of(read.tokens[known->second.first]) == flags_of(token),
                  "{}: \"{}\" stands in line {} as well, with another meaning", where,
                  shown_name(token.content), known->second.second);
    repeated.push_back(std::move(token.content));
  }
  VIADUCT_CHECK(ConfigError, !read.tokens.empty(), "--add-tokens {}: has no tokens", file.string());
  if (empty > 0) {
    read.notes.push_back(fmt::format("{}: {} left out", file.string(),
                                     counted(empty, "empty line is", "empty lines are")));
  }
  if (!repeated.empty()) {
    read.notes.push_back(fmt::format(
        "{}: {} named more than once and counts once: {}", file.string(),
        counted(std::ssize(repeated), "token is", "tokens are"), shown_tokens(repeated)));
  }
  return read;
}

}  // namespace viaduct
