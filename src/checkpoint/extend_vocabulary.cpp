#include "checkpoint/extend_vocabulary.h"

#include <algorithm>
#include <set>

#include "base/error.h"
#include "base/json.h"
#include "base/json_reader.h"
#include "base/units.h"
#include "data/tokenizer/add_tokens.h"
#include "data/tokenizer/new_tokens.h"
#include "data/tokenizer/tokenizer_files.h"
#include "model/family.h"

namespace viaduct {
namespace {

constexpr const char* kConfig = "config.json";

Tokenizer tokenizer_of(const std::map<std::string, std::string>& files,
                       const std::filesystem::path& where) {
  try {
    return load_tokenizer(TokenizerFiles(where, files));
  } catch (const Error& error) {
    fail<ConfigError>("--add-tokens: there is no tokenizer to add them to: {}", error.what());
  }
}

std::string summary_of(const GrownTokenizer& grown, int64_t before, int64_t rows,
                       NewRowStart start) {
  if (grown.fresh.empty())
    return fmt::format("no new ids: embedding and head keep their {} rows", before);
  const int64_t first = grown.fresh.front().id, last = grown.fresh.back().id;
  const int64_t spare = std::ranges::count_if(
      grown.fresh, [&](const AddedToken& token) { return token.id < before; });
  std::string text = counted(std::ssize(grown.fresh), "new token");
  text +=
      first == last ? fmt::format(" (id {})", first) : fmt::format(" (ids {} to {})", first, last);
  if (spare > 0)
    text += fmt::format(", {} of them in rows that the model had beyond its tokenizer", spare);
  text += rows == before
              ? fmt::format("; embedding and head keep their {} rows", before)
              : fmt::format("; embedding and head have {} rows instead of {}", rows, before);
  return text + fmt::format("; each new row is the mean of {}",
                            start == NewRowStart::all ? "all rows" : "the rows of its pieces");
}

}  // namespace

std::vector<NewRow> rows_of_texts(const Tokenizer& tokenizer,
                                  const std::vector<std::pair<int64_t, std::string>>& texts,
                                  int64_t rows, std::vector<std::string>& notes) {
  EncodeCache cache = tokenizer.make_cache();
  std::vector<std::string> special, unknown, none;
  std::vector<NewRow> made;
  for (const auto& [row, text] : texts) {
    NewRow fresh{row, {}};
    const UnknownBytes bytes = tokenizer.encode(text, {}, cache, fresh.of);
    std::erase_if(fresh.of, [&](int32_t id) { return id >= rows; });
    if (bytes.count > 0) unknown.push_back(text);
    if (fresh.of.empty()) none.push_back(text);
    if (std::ranges::any_of(fresh.of, [&](int32_t id) { return tokenizer.is_special(id); }))
      special.push_back(text);
    made.push_back(std::move(fresh));
  }
  const auto note = [&](const std::vector<std::string>& of, const std::string& what) {
    if (of.empty()) return;
    notes.push_back(
        fmt::format("{} {}: {}", counted(std::ssize(of), "new token"), what, shown_tokens(of)));
  };
  note(special, "with a special token inside, whose row counts in the mean");
  note(unknown, "with characters that the vocabulary does not have (" +
                    tokenizer.unknown_bytes_became() + " in the mean)");
  note(none, "without a piece that has a row: the mean of all rows");
  return made;
}

std::string with_vocabulary(const std::string& config, int64_t rows) {
  auto json = parse_json<nlohmann::ordered_json>(config, kConfig);
  json["vocab_size"] = rows;
  std::string written = json.dump(2) + "\n";
  const int64_t read = read_hf_config(written, kConfig).vocabulary;
  VIADUCT_CHECK(ConfigError, read == rows,
                "config.json: has a vocabulary of {} in a place that is not changed, expected {}: "
                "vocab_size",
                read, rows);
  return written;
}

ExtendedModel extend_vocabulary(const NewTokensRequest& request,
                                std::unique_ptr<TensorSource> weights, const ModelConfig& model,
                                const std::string& config, std::map<std::string, std::string> files,
                                const std::filesystem::path& where) {
  NewTokens wanted = read_new_tokens(request.file);
  files[kConfig] = config;
  const Tokenizer tokenizer = tokenizer_of(files, where);
  GrownTokenizer grown = add_tokens(tokenizer, std::move(files), where, wanted.tokens);
  ExtendedModel extended;
  extended.notes = std::move(wanted.notes);
  extended.notes.insert(extended.notes.end(), grown.notes.begin(), grown.notes.end());
  const int64_t before = model.vocabulary, rows = std::max<int64_t>(before, grown.vocab_size);

  std::vector<std::pair<int64_t, std::string>> texts;
  for (const AddedToken& token : grown.fresh) texts.emplace_back(token.id, token.content);
  std::vector<NewRow> fresh;
  if (request.start == NewRowStart::pieces) {
    fresh = rows_of_texts(tokenizer, texts, before, extended.notes);
  } else {
    for (const auto& [row, text] : texts) fresh.push_back({row, {}});
  }
  // Ids that the tokenizer had, and for which the model has no row.
  std::set<int64_t> known;
  for (const NewRow& row : fresh) known.insert(row.row);
  int64_t lacking = 0;
  for (int64_t row = before; row < rows; ++row) {
    if (known.contains(row)) continue;
    fresh.push_back({row, {}});
    ++lacking;
  }
  if (lacking > 0) {
    std::ranges::sort(fresh, {}, &NewRow::row);
    extended.notes.push_back(
        fmt::format("{}: the tokenizer had {} for which the model of {} has no row; they "
                    "get the mean of all rows",
                    where.string(), counted(lacking, "id"), before));
  }
  extended.summary = summary_of(grown, before, rows, request.start);
  extended.weights = grow_tables(std::move(weights), model, rows, fresh);
  extended.model = model;
  extended.model.vocabulary = rows;
  extended.config = rows == before ? config : with_vocabulary(config, rows);
  extended.files = std::move(grown.files);
  extended.files.erase(kConfig);
  return extended;
}

}  // namespace viaduct
