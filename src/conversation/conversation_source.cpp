#include "conversation/conversation_source.h"

#include <algorithm>

#include "base/error.h"
#include "data/text_check.h"

namespace viaduct {
namespace {

constexpr size_t kLargestLine = size_t{1} << 30;
constexpr std::string_view kSpaces = " \t\r\n";

bool is_space(char c) {
  return kSpaces.find(c) != std::string_view::npos;
}

void check_kind(const std::string& name, std::string_view content) {
  VIADUCT_CHECK(
      IoError, !content.starts_with("\x93NUMPY"),
      "{}: a NumPy file: Megatron's packed conversations are pickled Python objects, which run "
      "code "
      "when they are read, so they are refused; give the conversations that they were made of",
      name);
  check_file_kind(name, content, true);
}

}  // namespace

std::string ConversationPiece::place(int64_t number) const {
  return list ? fmt::format("{}: element {}", path, number) : fmt::format("{}:{}", path, number);
}

ConversationSource::ConversationSource(std::vector<std::filesystem::path> files, size_t piece_bytes)
    : files_(std::move(files)), piece_bytes_(piece_bytes) {}

void ConversationSource::open() {
  name_ = input_name(files_[file_]);
  stream_ = open_stream(files_[file_]);
  ended_ = closed_ = in_text_ = escaped_ = false;
  depth_ = 0;
  number_ = 1;
  buffer_.clear();
  searched_ = given_ = 0;
  read();
  check_kind(name_, buffer_);
  if (buffer_.starts_with("\xef\xbb\xbf")) buffer_.erase(0, 3);
  size_t first = buffer_.find_first_not_of(kSpaces);
  while (first == std::string::npos && !ended_) {
    read();
    first = buffer_.find_first_not_of(kSpaces);
  }
  list_ = first != std::string::npos && buffer_[first] == '[';
  if (list_) buffer_.erase(0, first + 1);
}

void ConversationSource::close() {
  VIADUCT_CHECK(IoError, !list_ || closed_, "{}: the list does not end: the file is cut off",
                name_);
  consumed_ += stream_->consumed();
  stream_.reset();
  ++file_;
}

/// Appends more of the stream to the buffer.
void ConversationSource::read() {
  VIADUCT_CHECK(IoError, buffer_.size() < kLargestLine && element_.size() < kLargestLine,
                "{}: a line of more than {} bytes, line {}", name_, kLargestLine, number_);
  const size_t before = buffer_.size();
  const size_t more = std::max(piece_bytes_, before);
  buffer_.resize(before + more);
  const size_t got = stream_->read(std::span(buffer_).subspan(before));
  buffer_.resize(before + got);
  ended_ = got < more;
}

/// Moves whole lines from the buffer to `text`.
void ConversationSource::cut_lines(std::string& text) {
  size_t end = 0;
  while (true) {
    const size_t newline = buffer_.find('\n', std::max(searched_, end));
    if (newline == std::string::npos) {
      searched_ = buffer_.size();
      break;
    }
    end = newline + 1;
    if (end >= piece_bytes_) break;
  }
  if (end == 0 && ended_) end = buffer_.size();
  if (end == 0) return;
  text.assign(buffer_, 0, end);
  buffer_.erase(0, end);
  searched_ = 0;
}

/// Moves whole elements of a list from the buffer to `text`, a line each.
void ConversationSource::cut_elements(std::string& text) {
  size_t at = 0;
  const auto finish = [&] {
    VIADUCT_CHECK(IoError, element_.find_first_not_of(kSpaces) != std::string::npos,
                  "{}: an empty element in the list, number {}", name_,
                  number_ + std::count(text.begin(), text.end(), '\n'));
    (text += element_) += '\n';
    element_.clear();
  };
  for (; at < buffer_.size() && text.size() < piece_bytes_; ++at) {
    const char c = buffer_[at];
    if (closed_) {
      VIADUCT_CHECK(IoError, is_space(c), "{}: something follows the list", name_);
      continue;
    }
    if (in_text_) {
      element_ += c;
      in_text_ = escaped_ || c != '"';
      escaped_ = !escaped_ && c == '\\';
    } else if (depth_ == 0 && c == ',') {
      finish();
    } else if (depth_ == 0 && c == ']') {
      const bool first = number_ == 1 && text.empty();
      if (!first || element_.find_first_not_of(kSpaces) != std::string::npos) finish();
      closed_ = true;
    } else {
      in_text_ = c == '"';
      depth_ += c == '{' || c == '[' ? 1 : c == '}' || c == ']' ? -1 : 0;
      element_ += c == '\n' || c == '\r' ? ' ' : c;
    }
  }
  buffer_.erase(0, at);
}

std::optional<ConversationPiece> ConversationSource::next() {
  while (file_ < files_.size()) {
    if (!stream_) open();
    ConversationPiece piece;
    if (list_) {
      cut_elements(piece.text);
    } else {
      cut_lines(piece.text);
    }
    if (!piece.text.empty()) {
      piece.path = name_;
      piece.file = file_;
      piece.first = number_;
      piece.list = list_;
      piece.offset = given_;
      given_ += piece.text.size();
      number_ += std::count(piece.text.begin(), piece.text.end(), '\n');
      return piece;
    }
    if (!ended_) {
      read();
    } else if (buffer_.empty()) {
      close();
    }
  }
  return std::nullopt;
}

}  // namespace viaduct
