#include "data/document_reader.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "data/text_check.h"

namespace viaduct {
namespace {

using nlohmann::json;

bool is_blank(std::string_view line) {
  return line.find_first_not_of(" \t\r\n") == std::string_view::npos;
}

// Takes one member of the line's object and builds nothing else, so that a line of deep brackets
// costs nothing.
class MemberReader : public json::json_sax_t {
 public:
  MemberReader(const std::string& key, std::string& text) : key_(key), text_(text) {}

  bool found = false;
  bool is_object = false;
  std::string problem;

  bool null() override { return other("null"); }
  bool boolean(bool) override { return other("a bool"); }
  bool number_integer(number_integer_t) override { return other("a number"); }
  bool number_unsigned(number_unsigned_t) override { return other("a number"); }
  bool number_float(number_float_t, const string_t&) override { return other("a number"); }
  bool binary(binary_t&) override { return other("binary"); }
  bool string(string_t& value) override {
    if (!wanted_) return true;
    wanted_ = false;
    found = true;
    text_ = std::move(value);
    return true;
  }
  bool start_object(std::size_t) override {
    if (depth_ == 0) is_object = true;
    return open("an object");
  }
  bool end_object() override { return close(); }
  bool start_array(std::size_t) override { return open("a list"); }
  bool end_array() override { return close(); }
  bool key(string_t& name) override {
    wanted_ = depth_ == 1 && name == key_;
    return true;
  }
  bool parse_error(std::size_t, const std::string&, const json::exception& error) override {
    // nlohmann's message, without its own numbering of what is one line here.
    problem = error.what();
    const size_t column = problem.find("column ");
    if (column != std::string::npos) problem.erase(0, column);
    return false;
  }

 private:
  bool other(const char* what) {
    if (!wanted_) return true;
    problem = fmt::format("'{}' is {}, expected a string", key_, what);
    return false;
  }
  bool open(const char* what) {
    ++depth_;
    return other(what);
  }
  bool close() {
    --depth_;
    return true;
  }

  const std::string& key_;
  std::string& text_;
  int depth_ = 0;
  bool wanted_ = false;
};

std::string document_of_line(std::string_view line, const std::string& key,
                             const DocumentPiece& piece, int64_t number) {
  std::string text;
  MemberReader reader(key, text);
  const bool good = json::sax_parse(line.begin(), line.end(), &reader);
  if (good && !reader.is_object) reader.problem = "not a JSON object";
  if (good && reader.is_object && !reader.found)
    reader.problem = fmt::format("the object has no '{}'", key);
  VIADUCT_CHECK(IoError, reader.problem.empty() && reader.found, "{}:{}: {}", piece.path, number,
                reader.problem);
  return text;
}

void use_lines(const DocumentPiece& piece, const std::string& key,
               FunctionRef<void(std::string_view)> use) {
  int64_t number = piece.first_line;
  for (std::string_view rest = piece.text(); !rest.empty(); ++number) {
    const size_t newline = rest.find('\n');
    const std::string_view line = rest.substr(0, newline);
    rest.remove_prefix(newline == std::string_view::npos ? rest.size() : newline + 1);
    if (!is_blank(line)) use(document_of_line(line, key, piece, number));
  }
}

}  // namespace

bool is_jsonl_path(const std::filesystem::path& path) {
  const std::string extension = path.extension().string();
  return extension == ".jsonl" || extension == ".ndjson" || extension == ".json";
}

DocumentReader::DocumentReader(std::vector<std::filesystem::path> files, bool all_jsonl,
                               size_t piece_bytes)
    : files_(std::move(files)), all_jsonl_(all_jsonl), piece_bytes_(piece_bytes) {}

std::optional<DocumentPiece> DocumentReader::next() {
  for (; file_ < files_.size(); ++file_, open_.reset()) {
    const std::filesystem::path& path = files_[file_];
    const bool jsonl = all_jsonl_ || is_jsonl_path(path);
    if (!open_) {
      open_ = std::make_shared<const MappedFile>(path);
      at_ = 0;
      line_ = 1;
      check_file_kind(path.string(), open_->text(), jsonl);
      if (!jsonl) {
        DocumentPiece piece{std::move(open_), path.string(), 0, 0, 1, false};
        piece.end = piece.file->size();
        ++file_;
        open_.reset();
        return piece;
      }
    }
    const std::string_view text = open_->text();
    if (at_ >= text.size()) continue;
    DocumentPiece piece{open_, path.string(), at_, at_, line_, true};
    do {
      const size_t newline = text.find('\n', piece.end);
      piece.end = newline == std::string_view::npos ? text.size() : newline + 1;
      ++line_;
    } while (piece.end < text.size() && piece.end - piece.begin < piece_bytes_);
    at_ = piece.end;
    return piece;
  }
  return std::nullopt;
}

void for_each_document(const DocumentPiece& piece, const std::string& key,
                       FunctionRef<void(std::string_view)> use) {
  try {
    check_text(piece.path, piece.text(), piece.begin);
    if (!piece.jsonl) {
      use(piece.text());
    } else {
      use_lines(piece, key, use);
    }
  } catch (const IoError&) {
    piece.file->check();  // a line may be wrong because it is gone
    throw;
  }
  piece.file->check();
}

}  // namespace viaduct
