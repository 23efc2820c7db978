#include "checkpoint/index_json.h"

#include <charconv>
#include <set>

#include "base/error.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/json_reader.h"
#include "checkpoint/json_shape.h"
#include "checkpoint/safetensors_reader.h"
#include "data/tokenizer/tokenizer_files.h"

namespace viaduct::index_json {

std::string hex(uint64_t checksum) {
  return fmt::format("{:016x}", checksum);
}

std::vector<int64_t> sizes(const Shape& shape) {
  return {shape.begin(), shape.end()};
}

Json files_to_json(const std::vector<StoredFile>& files) {
  Json array = Json::array();
  for (const auto& file : files)
    array.push_back(
        Json{{"bytes", file.bytes}, {"checksum", hex(file.checksum)}, {"name", file.name}});
  return array;
}

Json pieces_to_json(const std::vector<StoredPiece>& stored_pieces) {
  Json pieces = Json::array();
  for (const auto& stored : stored_pieces) {
    const Box& box = stored.piece.box;
    pieces.push_back(Json{{"box", Json::array({sizes(box.begin), sizes(box.size)})},
                          {"checksum", hex(stored.checksum)},
                          {"offset", stored.offset},
                          {"range", Json::array({stored.piece.begin, stored.piece.end})},
                          {"shard", stored.shard}});
  }
  return pieces;
}

Json tensor_to_json(const StoredTensor& tensor) {
  return Json{{"dtype", std::string(dtype_name(tensor.dtype))},
              {"pieces", pieces_to_json(tensor.pieces)},
              {"shape", sizes(tensor.shape)}};
}

namespace {

// The document, one line for each field and each tensor. Parsing and dumping it again gives the
// same text, so the checksum is taken of the compact dump.
std::string lines_of(const Json& json) {
  std::string text = "{";
  const char* comma = "\n";
  for (const auto& [key, value] : json.items()) {
    text += comma + Json(key).dump() + ":";
    comma = ",\n";
    if (key != "tensors") {
      text += value.dump();
      continue;
    }
    text += "{";
    const char* tensor_comma = "\n ";
    for (const auto& [name, tensor] : value.items()) {
      text += tensor_comma + Json(name).dump() + ":" + tensor.dump();
      tensor_comma = ",\n ";
    }
    text += "}";
  }
  return text + "\n}\n";
}

}  // namespace

std::string sealed_lines(Json json) {
  json["checksum"] = hex(hash64(json.dump()));
  return lines_of(json);
}

Json open_sealed(std::string_view text, const char* format, const std::string& where) {
  Json json = parse_json<Json>(text, where, {.bytes = size_t{1} << 32, .depth = 80});
  VIADUCT_CHECK(IoError, text_field(json, "format", where) == format,
                "{}: \"format\" is not \"{}\"", where, format);
  count_field(json, "version", where);
  const uint64_t checksum = checksum_field(json, where);
  json.erase("checksum");
  VIADUCT_CHECK(IoError, hash64(json.dump()) == checksum,
                "{}: its checksum does not match: the file is damaged", where);
  return json;
}

const Json& field(const Json& object, const char* name, const std::string& where) {
  VIADUCT_CHECK(IoError, object.is_object(), "{}: not a JSON object", where);
  const auto at = object.find(name);
  VIADUCT_CHECK(IoError, at != object.end(), "{}: no \"{}\"", where, name);
  return *at;
}

int64_t count_field(const Json& object, const char* name, const std::string& where) {
  const auto count = json_count(field(object, name, where));
  VIADUCT_CHECK(IoError, count, "{}: \"{}\" is not a count", where, name);
  return *count;
}

const std::string& text_field(const Json& object, const char* name, const std::string& where) {
  const Json& value = field(object, name, where);
  VIADUCT_CHECK(IoError, value.is_string(), "{}: \"{}\" is not a string", where, name);
  return value.get_ref<const std::string&>();
}

uint64_t checksum_field(const Json& object, const std::string& where) {
  const std::string& text = text_field(object, "checksum", where);
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, 16);
  VIADUCT_CHECK(IoError,
                text.size() == 16 && error == std::errc() && end == text.data() + text.size(),
                "{}: \"checksum\" is not 16 hexadecimal digits", where);
  return value;
}

DType dtype_field(const Json& object, const std::string& where) {
  const std::string& name = text_field(object, "dtype", where);
  for (DType dtype : {DType::f64, DType::f32, DType::bf16, DType::f16, DType::i64, DType::i32,
                      DType::i16, DType::i8, DType::u8, DType::u16}) {
    if (dtype_name(dtype) == name) return dtype;
  }
  fail<IoError>("{}: unknown dtype \"{}\"", where, shown_name(name));
}

void check_side_file_name(const std::string& name, const std::string& where) {
  const std::string folder = std::string(kTemplatesFolder) + "/";
  const bool is_template = name.starts_with(folder) && name.ends_with(kTemplateEnd);
  check_plain_file_name(is_template ? name.substr(folder.size()) : name, where);
}

std::vector<StoredFile> files_of(const Json& array, const char* name, const std::string& where) {
  VIADUCT_CHECK(IoError, array.is_array(), "{}: \"{}\" is not an array", where, name);
  std::vector<StoredFile> files;
  std::set<std::string> names{kCheckpointIndexFile, kCheckpointPiecesFile};
  for (const auto& item : array) {
    const std::string here = fmt::format("{}: {}[{}]", where, name, files.size());
    files.push_back({text_field(item, "name", here), count_field(item, "bytes", here),
                     checksum_field(item, here)});
    if (name == std::string_view("files")) {
      check_side_file_name(files.back().name, here);
    } else {
      check_plain_file_name(files.back().name, here);
    }
    VIADUCT_CHECK(IoError, names.insert(files.back().name).second, "{}: {} appears twice", here,
                  shown_name(files.back().name));
  }
  return files;
}

std::vector<StoredFile> files_field(const Json& json, const char* name, const std::string& where) {
  return files_of(field(json, name, where), name, where);
}

namespace {

StoredPiece parse_piece(const Json& json, const Shape& shape, int64_t shards,
                        const std::string& where) {
  const Json& box = field(json, "box", where);
  VIADUCT_CHECK(IoError, box.is_array() && box.size() == 2, "{}: \"box\" is not a pair", where);
  StoredPiece stored;
  Piece& piece = stored.piece;
  piece.box = {json_shape(box[0], 1, "box", where), json_shape(box[1], 1, "box", where)};
  VIADUCT_CHECK(IoError, is_inside(piece.box, shape), "{}: box {} is not inside {}", where,
                to_string(piece.box), to_string(shape));

  const Json& range = field(json, "range", where);
  VIADUCT_CHECK(IoError, range.is_array() && range.size() == 2, "{}: \"range\" is not a pair",
                where);
  const auto begin = json_count(range[0]), end = json_count(range[1]);
  VIADUCT_CHECK(IoError, begin && end && *begin <= *end && *end <= piece.box.size.elements(),
                "{}: \"range\" {} is not inside box {}", where, range.dump(), to_string(piece.box));
  piece.begin = *begin;
  piece.end = *end;

  const int64_t shard = count_field(json, "shard", where);
  VIADUCT_CHECK(IoError, shard < shards, "{}: shard {}, but there are {}", where, shard, shards);
  stored.shard = static_cast<size_t>(shard);
  stored.offset = count_field(json, "offset", where);
  stored.checksum = checksum_field(json, where);
  VIADUCT_CHECK(IoError, stored.offset % kCheckpointAlignment == 0,
                "{}: offset {} is not a multiple of {}", where, stored.offset,
                kCheckpointAlignment);
  return stored;
}

}  // namespace

std::vector<StoredPiece> parse_pieces(const Json& json, const Shape& shape, int64_t shards,
                                      const std::string& where) {
  VIADUCT_CHECK(IoError, json.is_array(), "{}: \"pieces\" is not an array", where);
  std::vector<StoredPiece> pieces;
  for (const auto& piece : json)
    pieces.push_back(
        parse_piece(piece, shape, shards, fmt::format("{}, piece {}", where, pieces.size())));
  return pieces;
}

void check_in_shard(const StoredPiece& stored, DType dtype, const StoredFile& file,
                    const std::string& where) {
  const int64_t bytes = stored.piece.elements() * dtype_bytes(dtype);
  VIADUCT_CHECK(IoError, stored.offset <= file.bytes && bytes <= file.bytes - stored.offset,
                "{}: {} bytes at {} of shard {}, which holds {}", where, bytes, stored.offset,
                file.name, file.bytes);
}

StoredTensor parse_tensor(const Json& json, const std::vector<StoredFile>& shards,
                          const std::string& where) {
  StoredTensor tensor;
  tensor.dtype = dtype_field(json, where);
  tensor.shape = json_shape(field(json, "shape", where), dtype_bytes(tensor.dtype), "shape", where);
  tensor.pieces = parse_pieces(field(json, "pieces", where), tensor.shape,
                               static_cast<int64_t>(shards.size()), where);
  for (size_t i = 0; i < tensor.pieces.size(); ++i)
    check_in_shard(tensor.pieces[i], tensor.dtype, shards[tensor.pieces[i].shard],
                   fmt::format("{}, piece {}", where, i));
  return tensor;
}

std::string tensor_where(const std::string& where, const std::string& name) {
  return fmt::format("{}: tensor \"{}\"", where, shown_name(name));
}

}  // namespace viaduct::index_json
