#include "report/tensorboard_events.h"

#include <array>
#include <bit>

namespace viaduct::tensorboard {
namespace {

constexpr std::array<uint32_t, 256> make_table() {
  std::array<uint32_t, 256> table{};
  for (uint32_t i = 0; i < 256; ++i) {
    uint32_t crc = i;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0x82F63B78u : 0u);
    table[i] = crc;
  }
  return table;
}

constexpr auto kTable = make_table();

uint32_t masked(uint32_t crc) {
  return std::rotr(crc, 15) + 0xa282ead8u;
}

template <class T>
void put_little_endian(std::string& out, T value) {
  for (size_t i = 0; i < sizeof(T); ++i) out.push_back(static_cast<char>(value >> (8 * i) & 0xff));
}

// Protocol buffers' wire format: a key (field number << 3 | wire type), then the value.
enum WireType : uint32_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

void put_varint(std::string& out, uint64_t value) {
  for (; value >= 0x80; value >>= 7) out.push_back(static_cast<char>(value | 0x80));
  out.push_back(static_cast<char>(value));
}

void put_key(std::string& out, uint32_t field, WireType type) {
  put_varint(out, field << 3 | type);
}

void put_int(std::string& out, uint32_t field, int64_t value) {
  put_key(out, field, kVarint);
  put_varint(out, static_cast<uint64_t>(value));
}

void put_bytes(std::string& out, uint32_t field, std::string_view bytes) {
  put_key(out, field, kBytes);
  put_varint(out, bytes.size());
  out.append(bytes);
}

// Field numbers of tensorflow/core/util/event.proto and framework/summary.proto.
constexpr uint32_t kEventWallTime = 1, kEventStep = 2, kEventFileVersion = 3, kEventSummary = 5,
                   kEventSessionLog = 7;
constexpr uint32_t kSummaryValue = 1, kValueTag = 1, kValueSimple = 2;
constexpr uint32_t kValueTensor = 8, kValueMetadata = 9;
constexpr uint32_t kMetadataPlugin = 1, kMetadataDataClass = 4, kPluginName = 1;
constexpr uint32_t kTensorType = 1, kTensorShape = 2, kTensorStrings = 8;
constexpr int64_t kStringType = 7, kTensorClass = 2;
constexpr uint32_t kSessionLogStatus = 1;
constexpr int64_t kSessionStart = 1;

std::string event(double wall_seconds) {
  std::string out;
  put_key(out, kEventWallTime, kFixed64);
  put_little_endian(out, std::bit_cast<uint64_t>(wall_seconds));
  return out;
}

}  // namespace

uint32_t crc32c(std::string_view bytes) {
  uint32_t crc = ~0u;
  for (char c : bytes) crc = (crc >> 8) ^ kTable[(crc ^ static_cast<unsigned char>(c)) & 0xff];
  return ~crc;
}

std::string record(std::string_view data) {
  std::string out;
  put_little_endian(out, uint64_t{data.size()});
  put_little_endian(out, masked(crc32c(out)));
  out.append(data);
  put_little_endian(out, masked(crc32c(data)));
  return out;
}

std::string version_event(double wall_seconds) {
  std::string out = event(wall_seconds);
  put_bytes(out, kEventFileVersion, "brain.Event:2");
  return out;
}

std::string restart_event(double wall_seconds, int64_t step) {
  std::string session;
  put_int(session, kSessionLogStatus, kSessionStart);
  std::string out = event(wall_seconds);
  put_int(out, kEventStep, step);
  put_bytes(out, kEventSessionLog, session);
  return out;
}

std::string scalars_event(double wall_seconds, int64_t step, std::span<const Scalar> scalars) {
  std::string summary;
  for (const Scalar& scalar : scalars) {
    std::string value;
    put_bytes(value, kValueTag, scalar.tag);
    put_key(value, kValueSimple, kFixed32);
    put_little_endian(value, std::bit_cast<uint32_t>(static_cast<float>(scalar.value)));
    put_bytes(summary, kSummaryValue, value);
  }
  std::string out = event(wall_seconds);
  put_int(out, kEventStep, step);
  put_bytes(out, kEventSummary, summary);
  return out;
}

std::string texts_event(double wall_seconds, int64_t step, std::span<const Text> texts) {
  std::string plugin, metadata;
  put_bytes(plugin, kPluginName, "text");
  put_bytes(metadata, kMetadataPlugin, plugin);
  put_int(metadata, kMetadataDataClass, kTensorClass);
  std::string summary;
  for (const Text& text : texts) {
    std::string tensor, value;
    put_int(tensor, kTensorType, kStringType);
    put_bytes(tensor, kTensorShape, "");  // of no dims
    put_bytes(tensor, kTensorStrings, text.text);
    put_bytes(value, kValueTag, text.tag);
    put_bytes(value, kValueTensor, tensor);
    put_bytes(value, kValueMetadata, metadata);
    put_bytes(summary, kSummaryValue, value);
  }
  std::string out = event(wall_seconds);
  put_int(out, kEventStep, step);
  put_bytes(out, kEventSummary, summary);
  return out;
}

}  // namespace viaduct::tensorboard
