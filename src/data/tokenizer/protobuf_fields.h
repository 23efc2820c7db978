#pragma once
// Protocol-buffer messages, field by field (protobuf.dev, "Encoding"): as much as SentencePiece's
// models need, without a library and its code generator.

#include <cstdint>
#include <optional>
#include <string_view>

namespace viaduct {

/// Iterates over the fields of one message. Nested messages are the contents of fields.
class ProtobufFields {
 public:
  explicit ProtobufFields(std::string_view message) : rest_(message) {}

  struct Field {
    uint64_t number = 0;
    uint64_t value = 0;        // of a varint
    std::string_view content;  // of a length-delimited field, or one of 4 or 8 bytes
  };
  /// The next field; nothing at the end or where the message is malformed.
  std::optional<Field> next() {
    if (rest_.empty()) return std::nullopt;
    auto field = read();
    malformed_ = !field.has_value();
    return field;
  }
  /// After the last field: whether the message ends there.
  bool at_end() const { return rest_.empty() && !malformed_; }

 private:
  std::optional<Field> read() {
    const auto tag = varint();
    if (!tag) return std::nullopt;
    Field field{*tag >> 3, 0, {}};
    switch (*tag & 7) {
      case 0: {
        const auto value = varint();
        if (!value) return std::nullopt;
        field.value = *value;
        return field;
      }
      case 1:
        return with_content(field, 8);
      case 2: {
        const auto bytes = varint();
        return bytes ? with_content(field, *bytes) : std::nullopt;
      }
      case 5:
        return with_content(field, 4);
      default:
        return std::nullopt;
    }
  }

  std::optional<uint64_t> varint() {
    uint64_t value = 0;
    for (int shift = 0; shift < 64 && !rest_.empty(); shift += 7) {
      const auto byte = static_cast<uint8_t>(rest_.front());
      rest_.remove_prefix(1);
      value |= uint64_t{byte & 0x7Fu} << shift;
      if (byte < 0x80) return value;
    }
    return std::nullopt;
  }
  std::optional<Field> with_content(Field field, uint64_t bytes) {
    if (bytes > rest_.size()) return std::nullopt;
    field.content = rest_.substr(0, bytes);
    rest_.remove_prefix(bytes);
    return field;
  }

  std::string_view rest_;
  bool malformed_ = false;
};

}  // namespace viaduct
