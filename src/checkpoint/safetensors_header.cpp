#include "checkpoint/safetensors_header.h"

#include <algorithm>
#include <cstring>
#include <unordered_set>

#include "base/json.h"
#include "base/json_reader.h"
#include "checkpoint/json_shape.h"

namespace viaduct {
namespace {

using Json = nlohmann::json;

constexpr const char* kMetadata = "__metadata__";

struct StoredType {
  const char* name;
  DType dtype;
};

// BOOL comes after U8, so that u8 is written as U8.
constexpr StoredType kStoredTypes[] = {
    {"F64", DType::f64},      {"F32", DType::f32},     {"F16", DType::f16},
    {"BF16", DType::bf16},    {"I64", DType::i64},     {"I32", DType::i32},
    {"I16", DType::i16},      {"I8", DType::i8},       {"U8", DType::u8},
    {"U16", DType::u16},      {"BOOL", DType::u8},     {"F8_E4M3", DType::e4m3},
    {"F8_E5M2", DType::e5m2}, {"F8_E8M0", DType::e8m0}};

DType parse_dtype(const Json& value, const std::string& where) {
  VIADUCT_CHECK(IoError, value.is_string(), "{}: \"dtype\" is not a string", where);
  const auto& name = value.get_ref<const std::string&>();
  std::string known;
  for (const auto& type : kStoredTypes) {
    if (name == type.name) return type.dtype;
    known += std::string(known.empty() ? "" : ", ") + type.name;
  }
  fail<IoError>("{}: unknown dtype \"{}\" (known: {})", where, shown_name(name), known);
}

SafetensorsEntry parse_entry(const std::string& name, const Json& value, int64_t data_bytes,
                             const std::string& file) {
  const std::string where = fmt::format("{}: tensor \"{}\"", file, shown_name(name));
  VIADUCT_CHECK(IoError, value.is_object(), "{}: its header is not an object", where);
  for (const char* field : {"dtype", "shape", "data_offsets"})
    VIADUCT_CHECK(IoError, value.contains(field), "{}: no \"{}\"", where, field);
  SafetensorsEntry entry;
  entry.info.name = name;
  entry.info.dtype = parse_dtype(value.at("dtype"), where);
  entry.info.shape = json_shape(value.at("shape"), dtype_bytes(entry.info.dtype), "shape", where);

  const Json& offsets = value.at("data_offsets");
  VIADUCT_CHECK(IoError, offsets.is_array() && offsets.size() == 2,
                "{}: \"data_offsets\" is not a pair", where);
  const auto begin = json_count(offsets[0]), end = json_count(offsets[1]);
  VIADUCT_CHECK(IoError, begin && end && *begin <= *end,
                "{}: \"data_offsets\" is not a pair of rising offsets", where);
  VIADUCT_CHECK(IoError, *end <= data_bytes,
                "{}: ends at byte {} of the data, but the file holds only {}", where, *end,
                data_bytes);
  VIADUCT_CHECK(IoError, *end - *begin == entry.info.bytes(),
                "{}: {} bytes stored, expected {} for {} {}", where, *end - *begin,
                entry.info.bytes(), dtype_name(entry.info.dtype), to_string(entry.info.shape));
  entry.begin = *begin;
  return entry;
}

void parse_metadata(const Json& value, SafetensorsHeader& header, const std::string& where) {
  VIADUCT_CHECK(IoError, value.is_object(), "{}: \"{}\" is not an object", where, kMetadata);
  for (const auto& [key, text] : value.items()) {
    VIADUCT_CHECK(IoError, text.is_string(), "{}: \"{}\" holds \"{}\", which is not a string",
                  where, kMetadata, shown_name(key));
    header.metadata.emplace(key, text.get<std::string>());
  }
}

// Sorts by offset and checks that the tensors tile the data: no gap, no overlap, no trailing bytes.
void check_tiling(SafetensorsHeader& header, const std::string& where) {
  auto& entries = header.entries;
  std::stable_sort(entries.begin(), entries.end(), [](const auto& a, const auto& b) {
    return a.begin != b.begin ? a.begin < b.begin : a.info.bytes() < b.info.bytes();
  });
  int64_t end = 0;
  for (const auto& entry : entries) {
    VIADUCT_CHECK(IoError, entry.begin == end,
                  "{}: tensor \"{}\" starts at byte {} of the data, expected {} ({})", where,
                  shown_name(entry.info.name), entry.begin, end,
                  entry.begin < end ? "it overlaps the tensor before" : "a gap");
    end += entry.info.bytes();
  }
  VIADUCT_CHECK(IoError, end == header.data_bytes,
                "{}: the tensors end at byte {} of the data, but the file holds {}", where, end,
                header.data_bytes);
}

const char* stored_name(DType dtype) {
  for (const auto& type : kStoredTypes)
    if (type.dtype == dtype) return type.name;
  fail<IoError>("safetensors: {} cannot be stored", dtype_name(dtype));
}

}  // namespace

SafetensorsHeader parse_safetensors_header(std::string_view file, const std::string& where) {
  uint64_t length = 0;
  VIADUCT_CHECK(IoError, file.size() >= sizeof(length),
                "{}: {} bytes are too few for a safetensors file", where, file.size());
  std::memcpy(&length, file.data(), sizeof(length));
  VIADUCT_CHECK(IoError, length <= kSafetensorsHeaderLimit,
                "{}: header of {} bytes, more than the limit of {}", where, length,
                kSafetensorsHeaderLimit);
  VIADUCT_CHECK(IoError, length <= file.size() - sizeof(length),
                "{}: header of {} bytes, but only {} follow its length (truncated, or not a "
                "safetensors file)",
                where, length, file.size() - sizeof(length));
  SafetensorsHeader header;
  header.data_offset = static_cast<int64_t>(sizeof(length) + length);
  header.data_bytes = static_cast<int64_t>(file.size()) - header.data_offset;

  // A shape is the longest valid array, and deeper nesting is invalid. Each tensor's entry is
  // consumed as it is parsed, so that a million of them are never in memory as JSON.
  const auto take = [&](const std::string& name, Json&& value) {
    if (name == kMetadata) {
      parse_metadata(value, header, where);
    } else {
      header.entries.push_back(parse_entry(name, value, header.data_bytes, where));
    }
  };
  const Json json = parse_json<Json>(file.substr(sizeof(length), length), where + ": header",
                                     {.depth = 4, .array_elements = 64}, take);
  VIADUCT_CHECK(IoError, json.is_object(), "{}: the header is not a JSON object", where);
  check_tiling(header, where);
  return header;
}

std::string make_safetensors_header(const std::vector<TensorInfo>& tensors,
                                    const std::map<std::string, std::string>& metadata) {
  std::string text = "{";
  if (!metadata.empty()) text += fmt::format("\"{}\":{}", kMetadata, Json(metadata).dump());
  std::unordered_set<std::string> names{kMetadata};
  int64_t begin = 0;
  for (const auto& info : tensors) {
    VIADUCT_CHECK(IoError, names.insert(info.name).second, "safetensors: two tensors called \"{}\"",
                  shown_name(info.name));
    const int64_t end = begin + info.bytes();
    const std::vector<int64_t> shape(info.shape.begin(), info.shape.end());
    text += fmt::format("{}{}:{{\"dtype\":\"{}\",\"shape\":{},\"data_offsets\":[{},{}]}}",
                        text.size() > 1 ? "," : "", Json(info.name).dump(), stored_name(info.dtype),
                        Json(shape).dump(), begin, end);
    begin = end;
  }
  text += "}";
  text.append((8 - text.size() % 8) % 8, ' ');
  const uint64_t length = text.size();
  VIADUCT_CHECK(IoError, length <= kSafetensorsHeaderLimit,
                "safetensors: header of {} bytes, more than the limit of {}", length,
                kSafetensorsHeaderLimit);
  std::string header(sizeof(length), '\0');
  std::memcpy(header.data(), &length, sizeof(length));
  return header + text;
}

}  // namespace viaduct
