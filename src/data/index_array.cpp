#include "data/index_array.h"

#include <fmt/format.h>

#include <charconv>
#include <cstring>
#include <fstream>

#include "base/error.h"
#include "base/file.h"

namespace viaduct {
namespace {

constexpr std::string_view kMagic("\x93NUMPY\x01\x00", 8);
constexpr size_t kAlignment = 64, kLengthBytes = 2;
// NumPy pads the header so that the first axis can grow to this many digits.
constexpr size_t kAxisDigits = 21;

struct IndexTypeName {
  IndexType type;
  std::string_view numpy, plain;
  int64_t bytes;
};
constexpr IndexTypeName kTypes[] = {{IndexType::int16, "<i2", "int16", 2},
                                    {IndexType::int32, "<i4", "int32", 4},
                                    {IndexType::uint32, "<u4", "uint32", 4},
                                    {IndexType::int64, "<i8", "int64", 8}};

const IndexTypeName& names_of(IndexType type) {
  return kTypes[static_cast<size_t>(type)];
}

/// The text after `key` in the header's dictionary, up to `end`.
std::string_view entry(std::string_view header, std::string_view key, char end,
                       const std::string& where) {
  const size_t at = header.find(key);
  const size_t begin = at + key.size();
  const size_t stop = at == std::string_view::npos ? at : header.find(end, begin);
  VIADUCT_CHECK(IoError, stop != std::string_view::npos, "{}: its .npy header has no {}", where,
                key);
  return header.substr(begin, stop - begin);
}

IndexType type_of(std::string_view name, const std::string& where) {
  for (const IndexTypeName& type : kTypes) {
    if (type.numpy == name) return type.type;
  }
  fail<IoError>("{}: an array of {}, expected <i2, <i4, <u4 or <i8", where, name);
}

/// "10,", "10, 2".
void parse_shape(std::string_view text, const std::string& where, IndexShape& shape) {
  int64_t axes[2] = {0, 0};
  size_t count = 0;
  while (!text.empty()) {
    const size_t comma = text.find(',');
    std::string_view number = text.substr(0, comma);
    while (!number.empty() && number.front() == ' ') number.remove_prefix(1);
    if (number.empty()) break;  // after the comma of one axis
    const char* last = number.data() + number.size();
    int64_t value = -1;
    const auto [end, error] = std::from_chars(number.data(), last, value);
    VIADUCT_CHECK(IoError, count < 2 && error == std::errc() && end == last && value >= 0,
                  "{}: an array of the shape ({}), expected one or two axes", where, text);
    axes[count++] = value;
    if (comma == std::string_view::npos) break;
    text.remove_prefix(comma + 1);
  }
  shape.rows = axes[0];
  shape.columns = count == 2 ? axes[1] : 0;
  int64_t values = 0, bytes = 0;
  const bool fits = !__builtin_mul_overflow(shape.rows, count == 2 ? axes[1] : 1, &values) &&
                    !__builtin_mul_overflow(values, index_type_bytes(shape.type), &bytes);
  VIADUCT_CHECK(IoError, count >= 1 && fits && (count == 1 || axes[1] > 0),
                "{}: an array whose size is not valid", where);
}

}  // namespace

int64_t index_type_bytes(IndexType type) {
  return names_of(type).bytes;
}

std::string describe(const IndexShape& shape) {
  const std::string_view type = names_of(shape.type).plain;
  return shape.columns == 0 ? fmt::format("{} [{}]", type, shape.rows)
                            : fmt::format("{} [{}, {}]", type, shape.rows, shape.columns);
}

std::string npy_header(const IndexShape& shape) {
  const std::string rows = std::to_string(shape.rows);
  const std::string axes =
      shape.columns == 0 ? rows + "," : fmt::format("{}, {}", rows, shape.columns);
  std::string text = fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}), }}",
                                 names_of(shape.type).numpy, axes);
  text.append(kAxisDigits - rows.size(), ' ');
  const size_t length = kMagic.size() + kLengthBytes + text.size() + 1;
  text.append(kAlignment - length % kAlignment, ' ');
  text.push_back('\n');
  const auto size = static_cast<uint16_t>(text.size());
  std::string header(kMagic);
  header.append(reinterpret_cast<const char*>(&size), kLengthBytes);
  return header + text;
}

IndexShape parse_npy_header(std::string_view file, const std::string& where, size_t& header_bytes) {
  VIADUCT_CHECK(IoError, file.starts_with(kMagic) && file.size() >= kMagic.size() + kLengthBytes,
                "{} is not a .npy file of version 1.0", where);
  uint16_t size = 0;
  std::memcpy(&size, file.data() + kMagic.size(), kLengthBytes);
  header_bytes = kMagic.size() + kLengthBytes + size;
  VIADUCT_CHECK(IoError, header_bytes <= file.size() && header_bytes % 8 == 0,
                "{}: its .npy header has {} bytes, expected a multiple of 8 within the file", where,
                header_bytes);
  const std::string_view header = file.substr(kMagic.size() + kLengthBytes, size);
  IndexShape shape;
  shape.type = type_of(entry(header, "'descr': '", '\'', where), where);
  VIADUCT_CHECK(IoError, entry(header, "'fortran_order': ", ',', where) == "False",
                "{}: stored column by column, expected row by row", where);
  parse_shape(entry(header, "'shape': (", ')', where), where, shape);
  return shape;
}

IndexShape read_npy_shape(const std::filesystem::path& path) {
  constexpr size_t kMost = 4096;
  std::ifstream file(path, std::ios::binary);
  VIADUCT_CHECK(IoError, file.is_open(), "cannot open {}", path.string());
  std::string head(kMost, '\0');
  file.read(head.data(), static_cast<std::streamsize>(head.size()));
  head.resize(static_cast<size_t>(file.gcount()));
  size_t header_bytes = 0;
  return parse_npy_header(head, path.string(), header_bytes);
}

IndexArray::IndexArray(const IndexShape& shape, std::vector<std::byte> values) : shape_(shape) {
  VIADUCT_CHECK(ShapeError, static_cast<int64_t>(values.size()) == shape.bytes(),
                "{} bytes for an array of {}", values.size(), describe(shape));
  memory_ = std::make_shared<const std::vector<std::byte>>(std::move(values));
  data_ = memory_->data();
}

IndexArray IndexArray::map(const std::filesystem::path& path) {
  IndexArray array;
  array.file_ = std::make_shared<const MappedFile>(path);
  size_t header_bytes = 0;
  array.shape_ = parse_npy_header(array.file_->text(), path.string(), header_bytes);
  const auto found = static_cast<int64_t>(array.file_->size() - header_bytes);
  VIADUCT_CHECK(IoError, found == array.shape_.bytes(), "{}: {} bytes for {}, expected {}",
                path.string(), found, describe(array.shape_), array.shape_.bytes());
  array.data_ = array.file_->data() + header_bytes;
  return array;
}

void IndexArray::check_read() const {
  if (file_ && file_->failed()) file_->check();
}

}  // namespace viaduct
