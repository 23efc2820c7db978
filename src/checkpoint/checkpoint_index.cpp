#include "checkpoint/checkpoint_index.h"

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <set>

#include "base/error.h"
#include "base/hash.h"
#include "checkpoint/safetensors_reader.h"
#include "checkpoint/strict_json.h"

namespace viaduct {
namespace {

using Json = nlohmann::json;

constexpr const char* kFormat = "viaduct-checkpoint";

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

Json tensor_to_json(const StoredTensor& tensor) {
  Json pieces = Json::array();
  for (const auto& stored : tensor.pieces) {
    const Box& box = stored.piece.box;
    pieces.push_back(Json{{"box", Json::array({sizes(box.begin), sizes(box.size)})},
                          {"checksum", hex(stored.checksum)},
                          {"offset", stored.offset},
                          {"range", Json::array({stored.piece.begin, stored.piece.end})},
                          {"shard", stored.shard}});
  }
  return Json{{"dtype", std::string(dtype_name(tensor.dtype))},
              {"pieces", std::move(pieces)},
              {"shape", sizes(tensor.shape)}};
}

// The document, one line for each field and each tensor. `dump` of what is parsed from it gives the
// same text for the same values, so the checksum is that of the compact dump.
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

std::vector<StoredFile> files_field(const Json& json, const char* name, const std::string& where) {
  const Json& array = field(json, name, where);
  VIADUCT_CHECK(IoError, array.is_array(), "{}: \"{}\" is not an array", where, name);
  std::vector<StoredFile> files;
  std::set<std::string> names{kCheckpointIndexFile};
  for (const auto& item : array) {
    const std::string here = fmt::format("{}: {}[{}]", where, name, files.size());
    files.push_back({text_field(item, "name", here), count_field(item, "bytes", here),
                     checksum_field(item, here)});
    check_plain_file_name(files.back().name, here);
    VIADUCT_CHECK(IoError, names.insert(files.back().name).second, "{}: {} is there twice", here,
                  shown_name(files.back().name));
  }
  return files;
}

StoredPiece parse_piece(const Json& json, const StoredTensor& tensor,
                        const std::vector<StoredFile>& shards, const std::string& where) {
  const Json& box = field(json, "box", where);
  VIADUCT_CHECK(IoError, box.is_array() && box.size() == 2, "{}: \"box\" is not a pair", where);
  StoredPiece stored;
  Piece& piece = stored.piece;
  piece.box = {json_shape(box[0], 1, "box", where), json_shape(box[1], 1, "box", where)};
  VIADUCT_CHECK(IoError, is_inside(piece.box, tensor.shape), "{}: box {} is not inside {}", where,
                to_string(piece.box), to_string(tensor.shape));

  const Json& range = field(json, "range", where);
  VIADUCT_CHECK(IoError, range.is_array() && range.size() == 2, "{}: \"range\" is not a pair",
                where);
  const auto begin = json_count(range[0]), end = json_count(range[1]);
  VIADUCT_CHECK(IoError, begin && end && *begin <= *end && *end <= piece.box.size.elements(),
                "{}: \"range\" {} is not inside box {}", where, range.dump(), to_string(piece.box));
  piece.begin = *begin;
  piece.end = *end;

  const int64_t shard = count_field(json, "shard", where);
  VIADUCT_CHECK(IoError, shard < static_cast<int64_t>(shards.size()),
                "{}: shard {}, but there are {}", where, shard, shards.size());
  stored.shard = static_cast<size_t>(shard);
  stored.offset = count_field(json, "offset", where);
  stored.checksum = checksum_field(json, where);
  const StoredFile& file = shards[stored.shard];
  const int64_t bytes = piece.elements() * dtype_bytes(tensor.dtype);
  VIADUCT_CHECK(IoError, stored.offset % kCheckpointAlignment == 0,
                "{}: offset {} is no multiple of {}", where, stored.offset, kCheckpointAlignment);
  VIADUCT_CHECK(IoError, stored.offset <= file.bytes && bytes <= file.bytes - stored.offset,
                "{}: {} bytes at {} of shard {}, which holds {}", where, bytes, stored.offset,
                file.name, file.bytes);
  return stored;
}

StoredTensor parse_tensor(const Json& json, const std::vector<StoredFile>& shards,
                          const std::string& where) {
  StoredTensor tensor;
  tensor.dtype = dtype_field(json, where);
  tensor.shape = json_shape(field(json, "shape", where), dtype_bytes(tensor.dtype), "shape", where);
  const Json& pieces = field(json, "pieces", where);
  VIADUCT_CHECK(IoError, pieces.is_array(), "{}: \"pieces\" is not an array", where);
  for (const auto& piece : pieces)
    tensor.pieces.push_back(parse_piece(piece, tensor, shards,
                                        fmt::format("{}, piece {}", where, tensor.pieces.size())));
  return tensor;
}

// No byte of a shard belongs to two pieces.
void check_bytes_disjoint(const CheckpointIndex& index, const std::string& where) {
  struct Span {
    int64_t begin, end;
    const std::string* tensor;
  };
  std::vector<std::vector<Span>> spans(index.shards.size());
  for (const auto& [name, tensor] : index.tensors) {
    for (const auto& stored : tensor.pieces) {
      const int64_t bytes = stored.piece.elements() * dtype_bytes(tensor.dtype);
      if (bytes > 0) spans[stored.shard].push_back({stored.offset, stored.offset + bytes, &name});
    }
  }
  for (auto& shard : spans) {
    std::sort(shard.begin(), shard.end(),
              [](const Span& a, const Span& b) { return a.begin < b.begin; });
    for (size_t i = 1; i < shard.size(); ++i)
      VIADUCT_CHECK(IoError, shard[i - 1].end <= shard[i].begin,
                    "{}: tensors \"{}\" and \"{}\" share bytes of a shard", where,
                    shown_name(*shard[i - 1].tensor), shown_name(*shard[i].tensor));
  }
}

bool box_before(const Box& a, const Box& b) {
  const auto less = [](const Shape& x, const Shape& y) {
    return std::lexicographical_compare(x.begin(), x.end(), y.begin(), y.end());
  };
  return a.begin == b.begin ? less(a.size, b.size) : less(a.begin, b.begin);
}

void check_tensor_complete(const StoredTensor& tensor, const std::string& where) {
  // Real layouts have at most a box for each rank; this keeps a hostile index from costing a
  // quadratic number of comparisons.
  constexpr size_t kMostBoxes = 16384;
  std::vector<const Piece*> pieces;
  int64_t elements = 0;
  for (const auto& stored : tensor.pieces)
    if (stored.piece.elements() > 0) pieces.push_back(&stored.piece);
  std::sort(pieces.begin(), pieces.end(), [](const Piece* a, const Piece* b) {
    return a->box == b->box ? a->begin < b->begin : box_before(a->box, b->box);
  });
  std::vector<const Box*> boxes;
  for (size_t i = 0; i < pieces.size(); ++i) {
    const Piece& piece = *pieces[i];
    if (i > 0 && piece.box == pieces[i - 1]->box) {
      VIADUCT_CHECK(IoError, pieces[i - 1]->end <= piece.begin, "{}: pieces {} and {} overlap",
                    where, to_string(*pieces[i - 1]), to_string(piece));
    } else {
      boxes.push_back(&piece.box);
    }
    // Disjoint so far, so the sum is at most the elements of a few boxes; it cannot overflow before
    // it is larger than the tensor.
    elements += piece.elements();
    VIADUCT_CHECK(IoError, elements <= tensor.shape.elements(),
                  "{}: its pieces overlap: they hold more than its {} elements", where,
                  tensor.shape.elements());
  }
  VIADUCT_CHECK(IoError, boxes.size() <= kMostBoxes, "{}: {} different boxes, more than {}", where,
                boxes.size(), kMostBoxes);
  for (size_t i = 0; i < boxes.size(); ++i) {
    for (size_t j = i + 1; j < boxes.size(); ++j) {
      if (boxes[j]->begin[0] >= boxes[i]->begin[0] + boxes[i]->size[0]) break;  // sorted
      VIADUCT_CHECK(IoError, !overlaps(*boxes[i], *boxes[j]), "{}: boxes {} and {} overlap", where,
                    to_string(*boxes[i]), to_string(*boxes[j]));
    }
  }
  VIADUCT_CHECK(IoError, elements == tensor.shape.elements(),
                "{}: parts are missing: its pieces hold {} of {} elements", where, elements,
                tensor.shape.elements());
}

std::string tensor_where(const std::string& where, const std::string& name) {
  return fmt::format("{}: tensor \"{}\"", where, shown_name(name));
}

}  // namespace

std::string format_checkpoint_index(const CheckpointIndex& index) {
  Json json{{"files", files_to_json(index.files)},
            {"format", kFormat},
            {"shards", files_to_json(index.shards)},
            {"state", parse_strict_json<Json>(index.state, {.depth = 64}, "checkpoint state")},
            {"step", index.step},
            {"tensors", Json::object()},
            {"version", kCheckpointVersion}};
  Json& tensors = json["tensors"];
  for (const auto& [name, tensor] : index.tensors) tensors[name] = tensor_to_json(tensor);
  json["checksum"] = hex(hash64(json.dump()));
  return lines_of(json);
}

CheckpointIndex parse_checkpoint_index(std::string_view text, const std::string& where) {
  Json json = parse_strict_json<Json>(text, {.depth = 80}, where);
  VIADUCT_CHECK(IoError, text_field(json, "format", where) == kFormat,
                "{}: \"format\" is not \"{}\"", where, kFormat);
  const int64_t version = count_field(json, "version", where);
  VIADUCT_CHECK(IoError, version == kCheckpointVersion,
                "{}: format version {}, this program reads version {}", where, version,
                kCheckpointVersion);
  const uint64_t checksum = checksum_field(json, where);
  json.erase("checksum");
  VIADUCT_CHECK(IoError, hash64(json.dump()) == checksum,
                "{}: its checksum does not fit: the file is damaged", where);

  CheckpointIndex index;
  index.step = count_field(json, "step", where);
  index.shards = files_field(json, "shards", where);
  index.files = files_field(json, "files", where);
  std::set<std::string> shard_names;
  for (const auto& shard : index.shards) shard_names.insert(shard.name);
  for (const auto& file : index.files)
    VIADUCT_CHECK(IoError, !shard_names.contains(file.name), "{}: {} is both shard and file", where,
                  shown_name(file.name));
  index.state = field(json, "state", where).dump();
  const Json& tensors = field(json, "tensors", where);
  VIADUCT_CHECK(IoError, tensors.is_object(), "{}: \"tensors\" is not an object", where);
  for (const auto& [name, tensor] : tensors.items())
    index.tensors.emplace(name, parse_tensor(tensor, index.shards, tensor_where(where, name)));
  check_bytes_disjoint(index, where);
  return index;
}

void check_complete(const CheckpointIndex& index, const std::string& where) {
  for (const auto& [name, tensor] : index.tensors)
    check_tensor_complete(tensor, tensor_where(where, name));
}

void merge_checkpoint_index(CheckpointIndex& index, CheckpointIndex&& other,
                            const std::string& where) {
  const size_t first_shard = index.shards.size();
  index.shards.insert(index.shards.end(), other.shards.begin(), other.shards.end());
  for (auto& [name, tensor] : other.tensors) {
    for (auto& stored : tensor.pieces) stored.shard += first_shard;
    auto [at, fresh] = index.tensors.try_emplace(name, tensor);
    if (fresh) continue;
    StoredTensor& known = at->second;
    VIADUCT_CHECK(IoError, known.dtype == tensor.dtype && known.shape == tensor.shape,
                  "{}: {} {} here, {} {} on another rank", tensor_where(where, name),
                  dtype_name(tensor.dtype), to_string(tensor.shape), dtype_name(known.dtype),
                  to_string(known.shape));
    known.pieces.insert(known.pieces.end(), tensor.pieces.begin(), tensor.pieces.end());
  }
}

}  // namespace viaduct
