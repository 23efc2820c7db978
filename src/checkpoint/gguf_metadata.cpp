#include "checkpoint/gguf_metadata.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <set>

#include "base/error.h"
#include "base/json_reader.h"
#include "checkpoint/gguf_values.h"

namespace viaduct {
namespace {

using namespace gguf_values;

constexpr int64_t kKindBytes[] = {1, 1, 2, 2, 4, 4, 4, 1, 8, 12, 8, 8, 8};  // minimum of a value

class Cursor {
 public:
  Cursor(std::string_view file, const std::string& where) : file_(file), where_(where) {}

  template <class T>
  T take(const char* what) {
    T value{};
    std::memcpy(&value, bytes(sizeof(T), what).data(), sizeof(T));
    return value;
  }
  std::string_view bytes(uint64_t count, const char* what) {
    VIADUCT_CHECK(IoError, count <= left(), "{}: {} of {} bytes at byte {}, but only {} follow",
                  where_, what, count, at_, left());
    const auto taken = file_.substr(at_, count);
    at_ += count;
    return taken;
  }
  std::string string(const char* what) {
    const auto length = take<uint64_t>(what);
    return std::string(bytes(length, what));
  }
  /// A count of entries of at least `entry_bytes` each.
  uint64_t count(const char* what, uint64_t entry_bytes) {
    const auto count = take<uint64_t>(what);
    VIADUCT_CHECK(IoError, count <= left() / entry_bytes, "{}: {} {}, but only {} bytes follow",
                  where_, count, what, left());
    return count;
  }
  uint64_t left() const { return file_.size() - at_; }
  uint64_t at() const { return at_; }

 private:
  std::string_view file_;
  const std::string& where_;
  uint64_t at_ = 0;
};

int64_t take_integer(Cursor& cursor, uint32_t kind, const std::string& where) {
  switch (kind) {
    case u8:
      return cursor.take<uint8_t>("a value");
    case i8:
      return cursor.take<int8_t>("a value");
    case u16:
      return cursor.take<uint16_t>("a value");
    case i16:
      return cursor.take<int16_t>("a value");
    case u32:
      return cursor.take<uint32_t>("a value");
    case i32:
      return cursor.take<int32_t>("a value");
    case flag:
      return cursor.take<uint8_t>("a value") != 0;
    case i64:
      return cursor.take<int64_t>("a value");
    default: {
      const auto value = cursor.take<uint64_t>("a value");
      VIADUCT_CHECK(IoError, value <= uint64_t{std::numeric_limits<int64_t>::max()},
                    "{}: value {} is too large", where, value);
      return static_cast<int64_t>(value);
    }
  }
}

GgufValue take_array(Cursor& cursor, const std::string& key, const std::string& where) {
  const auto kind = cursor.take<uint32_t>("the type of an array");
  VIADUCT_CHECK(IoError, kind < kinds && kind != array, "{}: \"{}\" is an array of type {}", where,
                shown_name(key), kind);
  const uint64_t count = cursor.count("elements of an array", uint64_t(kKindBytes[kind]));
  if (kind == text) {
    std::vector<std::string> values;
    values.reserve(count);
    for (uint64_t i = 0; i < count; ++i) values.push_back(cursor.string("a text"));
    return values;
  }
  if (kind == f32 || kind == f64) {
    std::vector<double> values(count);
    for (double& value : values)
      value = kind == f32 ? cursor.take<float>("a value") : cursor.take<double>("a value");
    return values;
  }
  std::vector<int64_t> values(count);
  for (int64_t& value : values) value = take_integer(cursor, kind, where);
  return values;
}

GgufValue take_value(Cursor& cursor, const std::string& key, const std::string& where) {
  const auto kind = cursor.take<uint32_t>("the type of a value");
  VIADUCT_CHECK(IoError, kind < kinds, "{}: \"{}\" has the unknown type {}", where, shown_name(key),
                kind);
  switch (kind) {
    case array:
      return take_array(cursor, key, where);
    case text:
      return cursor.string("a text");
    case flag:
      return take_integer(cursor, flag, where) != 0;
    case f32:
      return static_cast<double>(cursor.take<float>("a value"));
    case f64:
      return cursor.take<double>("a value");
    default:
      return take_integer(cursor, kind, where);
  }
}

GgufTensorType tensor_type(uint32_t number, const std::string& where, const std::string& shown) {
  if (const GgufType* known = find_gguf_type(number)) return known->type;
  const std::string_view name = unread_gguf_type(number);
  fail<IoError>(
      "{}: tensor \"{}\" is {}, which is not read (types that are: {})", where, shown,
      name.empty() ? fmt::format("of the unknown type {} of ggml", number) : std::string(name),
      gguf_type_names());
}

GgufTensor take_tensor(Cursor& cursor, const std::string& where) {
  GgufTensor tensor;
  tensor.name = cursor.string("the name of a tensor");
  const std::string shown = shown_name(tensor.name);
  const auto dims = cursor.take<uint32_t>("the number of dims");
  VIADUCT_CHECK(IoError, dims >= 1 && dims <= 4, "{}: tensor \"{}\" has {} dims, expected 1 to 4",
                where, shown, dims);
  int64_t sizes[4] = {}, elements = 1;
  for (uint32_t i = dims; i-- > 0;) {
    const auto size = cursor.take<uint64_t>("a size");
    constexpr uint64_t kLargest = uint64_t{1} << 56;  // bytes of any type fit int64
    VIADUCT_CHECK(IoError,
                  size >= 1 && size <= kLargest &&
                      !__builtin_mul_overflow(elements, int64_t(size), &elements) &&
                      elements <= int64_t{kLargest},
                  "{}: tensor \"{}\": its sizes are zero or overflow", where, shown);
    sizes[i] = static_cast<int64_t>(size);
  }
  tensor.shape = Shape(sizes, static_cast<int>(dims));
  tensor.type = tensor_type(cursor.take<uint32_t>("a type"), where, shown);
  const GgufType& type = gguf_type(tensor.type);
  VIADUCT_CHECK(IoError, tensor.shape.dim(-1) % type.block == 0,
                "{}: tensor \"{}\" {}: rows of {} are multiples of {}", where, shown,
                to_string(tensor.shape), type.name, type.block);
  const auto offset = cursor.take<uint64_t>("an offset");
  VIADUCT_CHECK(IoError, offset <= uint64_t{1} << 62, "{}: tensor \"{}\" starts at byte {}", where,
                shown, offset);
  tensor.offset = static_cast<int64_t>(offset);
  return tensor;
}

void check_places(const GgufHead& head, int64_t alignment, int64_t data_bytes,
                  const std::string& where) {
  std::vector<const GgufTensor*> tensors;
  std::set<std::string_view> names;
  for (const GgufTensor& tensor : head.tensors) {
    VIADUCT_CHECK(IoError, names.insert(tensor.name).second, "{}: tensor \"{}\" appears twice",
                  where, shown_name(tensor.name));
    tensors.push_back(&tensor);
  }
  std::sort(tensors.begin(), tensors.end(),
            [](const auto* a, const auto* b) { return a->offset < b->offset; });
  int64_t end = 0;
  for (const GgufTensor* tensor : tensors) {
    VIADUCT_CHECK(IoError, tensor->offset >= end && tensor->offset % alignment == 0,
                  "{}: tensor \"{}\" starts at byte {} of the data; expected a multiple of {} from "
                  "{} on",
                  where, shown_name(tensor->name), tensor->offset, alignment, end);
    end = tensor->offset + tensor->bytes();
    VIADUCT_CHECK(IoError, end <= data_bytes,
                  "{}: tensor \"{}\" ends at byte {} of the data, but the file holds {}", where,
                  shown_name(tensor->name), end, data_bytes);
  }
}

}  // namespace

int64_t aligned_for_gguf(int64_t bytes, int64_t alignment) {
  return (bytes + alignment - 1) / alignment * alignment;
}

GgufHead parse_gguf(std::string_view file, const std::string& where, GgufContent content) {
  GgufHead head(where);
  Cursor cursor(file, where);
  VIADUCT_CHECK(IoError, file.starts_with(kMagic), "{}: not a GGUF file", where);
  cursor.bytes(kMagic.size(), "the magic");
  const auto version = cursor.take<uint32_t>("the version");
  VIADUCT_CHECK(IoError, version == 2 || version == kVersion,
                "{}: GGUF version {} is not supported (supported: little-endian versions 2 and 3)",
                where, version);
  const uint64_t tensors = cursor.count("tensors", 8 + 4 + 8 + 4 + 8);
  const uint64_t keys = cursor.count("keys", 8 + 4 + 1);
  for (uint64_t i = 0; i < keys; ++i) {
    const std::string key = cursor.string("a key");
    GgufValue value = take_value(cursor, key, where);
    VIADUCT_CHECK(IoError, head.keys.add(key, std::move(value)), "{}: the key \"{}\" appears twice",
                  where, shown_name(key));
  }
  for (uint64_t i = 0; i < tensors; ++i) head.tensors.push_back(take_tensor(cursor, where));
  const int64_t alignment = head.keys.integer("general.alignment", kGgufAlignment);
  VIADUCT_CHECK(IoError, alignment >= 8 && alignment <= 1 << 20 && alignment % 8 == 0,
                "{}: general.alignment is {}, expected a multiple of 8 up to 2^20", where,
                alignment);
  const auto size = static_cast<int64_t>(file.size());
  head.data_begin = aligned_for_gguf(static_cast<int64_t>(cursor.at()), alignment);
  if (content == GgufContent::whole)
    check_places(head, alignment, std::max<int64_t>(size - head.data_begin, 0), where);
  return head;
}

}  // namespace viaduct
