#include "data/document_reader.h"

#include <algorithm>
#include <new>

#include "base/error.h"
#include "base/json.h"
#include "base/json_reader.h"
#include "data/text_check.h"
#include "data/tokenizer/unicode.h"

namespace viaduct {
namespace {

using nlohmann::json;

constexpr const char* kSplitIt = "split the text into several documents (JSONL has one a line)";

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
    if (wanted_ && found) problem = fmt::format("the object has '{}' twice", key_);
    return problem.empty();
  }
  bool parse_error(std::size_t, const std::string&, const json::exception& error) override {
    // nlohmann's message without its line number, which is always 1 here.
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
  size_t taken = 0;
  const bool good = scan_json<json>(line, reader, taken);
  if (good && !reader.is_object) reader.problem = "not a JSON object";
  if (good && reader.is_object && !reader.found)
    reader.problem = fmt::format("the object has no '{}'", key);
  VIADUCT_CHECK(IoError, reader.problem.empty() && reader.found, "{}:{}: {}", piece.path, number,
                reader.problem);
  return text;
}

/// `well_formed`: the whole piece is UTF-8. Else a line's ill-formed parts become U+FFFD before it
/// is parsed, as those of a text do when it is encoded: JSON itself has to be UTF-8.
void use_lines(const DocumentPiece& piece, const std::string& key, bool well_formed,
               FunctionRef<void(std::string_view, const DocumentPlace&)> use) {
  DocumentPlace place{piece.first_line, piece.begin};
  for (std::string_view rest = piece.text(); !rest.empty(); ++place.line) {
    const size_t newline = rest.find('\n');
    const std::string_view line = rest.substr(0, newline);
    const size_t taken = newline == std::string_view::npos ? rest.size() : newline + 1;
    rest.remove_prefix(taken);
    if (!is_blank(line)) {
      use(well_formed ? document_of_line(line, key, piece, place.line)
                      : document_of_line(lossy_utf8(line), key, piece, place.line),
          place);
    }
    place.offset += taken;
  }
}

}  // namespace

bool is_jsonl_path(const std::filesystem::path& path) {
  const std::string extension = without_compression(path).extension().string();
  return extension == ".jsonl" || extension == ".ndjson" || extension == ".json";
}

DocumentReader::DocumentReader(std::vector<std::filesystem::path> files, bool all_jsonl,
                               size_t piece_bytes, size_t largest_streamed)
    : files_(std::move(files)),
      all_jsonl_(all_jsonl),
      piece_bytes_(piece_bytes),
      largest_streamed_(largest_streamed) {}

void DocumentReader::open(const std::filesystem::path& path) {
  name_ = input_name(path);
  ended_ = false;
  jsonl_ = all_jsonl_ || is_jsonl_path(path);
  if (input_kind(path).stream) {
    stream_ = open_stream(path);
    rest_.resize(piece_bytes_);
    rest_.resize(stream_->read(rest_));
    ended_ = rest_.size() < piece_bytes_;
    check_file_kind(name_, rest_, jsonl_);
  } else {
    mapped_ = std::make_shared<const MappedFile>(path);
    check_file_kind(name_, mapped_->text(), jsonl_);
  }
  at_ = 0;
  line_ = 1;
  is_open_ = true;
}

void DocumentReader::close() {
  consumed_ = consumed();
  mapped_.reset();
  stream_.reset();
  rest_.clear();
  is_open_ = false;
  ++file_;
}

int64_t DocumentReader::consumed() const {
  if (stream_) return consumed_ + stream_->consumed();
  return consumed_ + static_cast<int64_t>(mapped_ ? at_ : 0);
}

std::optional<DocumentPiece> DocumentReader::next() {
  while (file_ < files_.size()) {
    if (!is_open_) open(files_[file_]);
    auto piece = stream_ ? next_of_stream() : next_of_file();
    if (piece) return piece;
    close();
  }
  return std::nullopt;
}

std::optional<DocumentPiece> DocumentReader::next_of_file() {
  const std::string_view text = mapped_->text();
  // An empty text is a document, an empty JSONL file holds none.
  if (ended_ || (jsonl_ && at_ >= text.size())) return std::nullopt;
  DocumentPiece piece{mapped_, {}, name_, at_, at_, line_, jsonl_};
  if (!jsonl_) {
    piece.end = text.size();
    ended_ = true;
  } else {
    do {
      const size_t newline = text.find('\n', piece.end);
      piece.end = newline == std::string_view::npos ? text.size() : newline + 1;
      ++line_;
    } while (piece.end < text.size() && piece.end - piece.begin < piece_bytes_);
  }
  at_ = piece.end;
  return piece;
}

/// Appends more of the stream to `text`.
void DocumentReader::fill(std::string& text) {
  VIADUCT_CHECK(IoError, text.size() < largest_streamed_,
                "{}: {} of more than {} bytes, from offset {} of the unpacked data; unpack the "
                "file to read it",
                name_, jsonl_ ? "a line" : "a document", largest_streamed_, at_);
  const size_t before = text.size();
  // Double each time, so that a long text is not copied repeatedly.
  const size_t more = std::max(piece_bytes_, text.size());
  try {
    text.resize(before + std::min(more, largest_streamed_ - before));
  } catch (const std::bad_alloc&) {
    fail<IoError>(
        "{}: there is not enough memory for {} of more than {} bytes, from offset {} of the "
        "unpacked data: {}",
        name_, jsonl_ ? "a line" : "a document", before, at_, kSplitIt);
  }
  const size_t got = stream_->read(std::span(text).subspan(before));
  ended_ = got < text.size() - before;
  text.resize(before + got);
}

std::optional<DocumentPiece> DocumentReader::next_of_stream() {
  const bool first = at_ == 0 && line_ == 1;
  std::string text = std::move(rest_);
  rest_.clear();
  size_t searched = 0, last = std::string::npos;
  while (true) {
    if (jsonl_ && text.size() >= piece_bytes_) {
      last = std::string_view(text).substr(searched).rfind('\n');
      if (last != std::string::npos) {
        last += searched + 1;
        break;
      }
    }
    if (ended_) break;
    searched = text.size();
    fill(text);
  }
  // An empty text is a document, an empty JSONL file holds none.
  if (text.empty() && (jsonl_ || !first)) return std::nullopt;
  if (last != std::string::npos) {
    rest_ = text.substr(last);
    text.resize(last);
  }
  DocumentPiece piece{nullptr, std::move(text), name_, at_, 0, line_, jsonl_};
  piece.end = piece.begin + piece.streamed.size();
  at_ = piece.end;
  // At least 1: an empty text is one document too.
  line_ += std::max<int64_t>(1, std::count(piece.streamed.begin(), piece.streamed.end(), '\n'));
  return piece;
}

void for_each_document(const DocumentPiece& piece, const std::string& key,
                       FunctionRef<void(std::string_view, const DocumentPlace&)> use) {
  try {
    const bool well_formed = check_text(piece.path, piece.text(), piece.begin);
    if (!piece.jsonl) {
      use(piece.text(), {piece.first_line, piece.begin});
    } else {
      use_lines(piece, key, well_formed, use);
    }
  } catch (const std::bad_alloc&) {
    fail<IoError>(
        "{}: there is not enough memory for {} bytes of it, from offset {}, in one piece: {}",
        piece.path, piece.text().size(), piece.begin, kSplitIt);
  } catch (const IoError&) {
    if (piece.file) piece.file->check();  // a read error may be the cause of a malformed line
    throw;
  }
  if (piece.file) piece.file->check();
}

}  // namespace viaduct
