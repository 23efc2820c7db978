#include "comm/tcp/frame.h"

#include <cstring>

#include "base/error.h"

namespace viaduct {
namespace {

uint32_t length_at(const char* bytes) {
  const auto* at = reinterpret_cast<const unsigned char*>(bytes);
  return uint32_t{at[0]} | uint32_t{at[1]} << 8 | uint32_t{at[2]} << 16 | uint32_t{at[3]} << 24;
}

void append_length(std::string& bytes, size_t length) {
  for (int byte = 0; byte < 4; ++byte)
    bytes.push_back(static_cast<char>(length >> (8 * byte) & 0xff));
}

void check_length(size_t length, uint32_t most = kMostFrameBytes) {
  VIADUCT_CHECK(CommError, length >= 1 && length <= most,
                "hosts over TCP: a message of {} bytes; expected 1 to {}", length, most);
}

}  // namespace

FrameWriter& FrameWriter::number(int64_t value) {
  const auto bits = static_cast<uint64_t>(value);
  for (int byte = 0; byte < 8; ++byte)
    bytes_.push_back(static_cast<char>(bits >> (8 * byte) & 0xff));
  return *this;
}

FrameWriter& FrameWriter::text(std::string_view value) {
  check_length(value.size() + 1);
  append_length(bytes_, value.size());
  bytes_ += value;
  return *this;
}

std::string FrameWriter::take() const {
  check_length(bytes_.size());
  std::string frame;
  append_length(frame, bytes_.size());
  return frame + bytes_;
}

int64_t FrameReader::number() {
  VIADUCT_CHECK(CommError, bytes_.size() >= 8, "hosts over TCP: a message ends early");
  uint64_t bits = 0;
  for (size_t byte = 0; byte < 8; ++byte)
    bits |= uint64_t{static_cast<unsigned char>(bytes_[byte])} << (8 * byte);
  bytes_.remove_prefix(8);
  return static_cast<int64_t>(bits);
}

std::string FrameReader::text() {
  const bool begins = bytes_.size() >= 4;
  const size_t length = begins ? length_at(bytes_.data()) : 0;
  VIADUCT_CHECK(CommError, begins && bytes_.size() - 4 >= length,
                "hosts over TCP: a message ends early");
  std::string text(bytes_.substr(4, length));
  bytes_.remove_prefix(4 + length);
  return text;
}

bool take_frame(std::string& bytes, std::string& frame, uint32_t most) {
  if (bytes.size() < 4) return false;
  const size_t length = length_at(bytes.data());
  check_length(length, most);
  if (bytes.size() < 4 + length) return false;
  frame = bytes.substr(4, length);
  bytes.erase(0, 4 + length);
  return true;
}

}  // namespace viaduct
