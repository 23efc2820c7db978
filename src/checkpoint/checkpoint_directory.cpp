#include "checkpoint/checkpoint_directory.h"

#include <algorithm>

#include "base/error.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/json_reader.h"
#include "checkpoint/index_json.h"
#include "checkpoint/json_shape.h"

namespace viaduct {
namespace {

using namespace index_json;

Json line_to_json(const IndexLine& line) {
  return Json::array({line.offset, line.bytes, hex(line.checksum)});
}

IndexLine line_of(const Json& json, int64_t pieces_bytes, const std::string& where) {
  const bool triple = json.is_array() && json.size() == 3;
  const auto offset = triple ? json_count(json[0]) : std::nullopt,
             bytes = triple ? json_count(json[1]) : std::nullopt;
  VIADUCT_CHECK(IoError, offset && bytes, "{}: \"line\" is not offset, bytes and checksum", where);
  VIADUCT_CHECK(IoError, *offset <= pieces_bytes && *bytes <= pieces_bytes - *offset,
                "{}: its line of {} bytes at {} is not inside {}, which holds {}", where, *bytes,
                *offset, kCheckpointPiecesFile, pieces_bytes);
  return {*offset, *bytes, checksum_field(Json{{"checksum", json[2]}}, where)};
}

/// Appends lines and returns their positions.
class Lines {
 public:
  IndexLine add(const Json& json) {
    const std::string text = json.dump();
    const IndexLine line{static_cast<int64_t>(text_.size()), static_cast<int64_t>(text.size()),
                         hash64(text)};
    text_ += text + "\n";
    return line;
  }
  std::string take() { return std::move(text_); }

 private:
  std::string text_;
};

}  // namespace

DirectoryTexts format_directory(const CheckpointIndex& index) {
  Lines lines;
  Json shards = Json::array(), tensors = Json::object();
  for (size_t begin = 0; begin < index.shards.size(); begin += kShardsPerLine) {
    const auto first = index.shards.begin() + static_cast<std::ptrdiff_t>(begin);
    const auto end = first + std::min<std::ptrdiff_t>(kShardsPerLine, index.shards.end() - first);
    shards.push_back(line_to_json(lines.add(files_to_json({first, end}))));
  }
  for (const auto& [name, tensor] : index.tensors) {
    tensors[name] = Json{{"dtype", std::string(dtype_name(tensor.dtype))},
                         {"line", line_to_json(lines.add(pieces_to_json(tensor.pieces)))},
                         {"shape", sizes(tensor.shape)}};
  }
  DirectoryTexts texts;
  texts.pieces = lines.take();
  const StoredFile pieces{kCheckpointPiecesFile, static_cast<int64_t>(texts.pieces.size()),
                          hash64(texts.pieces)};
  texts.index = sealed_lines(
      Json{{"files", files_to_json(index.files)},
           {"format", kCheckpointFormat},
           {"pieces", Json{{"bytes", pieces.bytes}, {"checksum", hex(pieces.checksum)}}},
           {"shard_lines", std::move(shards)},
           {"shards", index.shards.size()},
           {"state", parse_json<Json>(index.state, "checkpoint state")},
           {"step", index.step},
           {"tensors", std::move(tensors)},
           {"version", kDirectoryVersion}});
  return texts;
}

CheckpointDirectory parse_directory(std::string_view text, const std::string& where) {
  const Json json = open_sealed(text, kCheckpointFormat, where);
  CheckpointDirectory directory;
  const int64_t version = count_field(json, "version", where);
  if (version == kCheckpointVersion) {
    directory.whole = parse_index(json, where);
    check_complete(*directory.whole, where);
    directory.step = directory.whole->step;
    directory.files = directory.whole->files;
    directory.state = directory.whole->state;
    return directory;
  }
  VIADUCT_CHECK(IoError, version == kDirectoryVersion,
                "{}: format version {}, this program reads versions {} and {}", where, version,
                kCheckpointVersion, kDirectoryVersion);
  directory.step = count_field(json, "step", where);
  directory.files = files_field(json, "files", where);
  directory.state = field(json, "state", where).dump();
  const Json& pieces = field(json, "pieces", where);
  directory.pieces = {kCheckpointPiecesFile, count_field(pieces, "bytes", where + ": pieces"),
                      checksum_field(pieces, where + ": pieces")};
  const int64_t bytes = directory.pieces.bytes;

  directory.shards = count_field(json, "shards", where);
  const Json& shard_lines = field(json, "shard_lines", where);
  // Written so that it cannot overflow.
  const int64_t lines = directory.shards / kShardsPerLine + (directory.shards % kShardsPerLine > 0);
  VIADUCT_CHECK(
      IoError, shard_lines.is_array() && static_cast<int64_t>(shard_lines.size()) == lines,
      "{}: \"shard_lines\" is not an array of {} for {} shards", where, lines, directory.shards);
  for (const Json& line : shard_lines)
    directory.shard_lines.push_back(line_of(line, bytes, where + ": shard_lines"));

  const Json& tensors = field(json, "tensors", where);
  VIADUCT_CHECK(IoError, tensors.is_object(), "{}: \"tensors\" is not an object", where);
  for (const auto& [name, tensor] : tensors.items()) {
    const std::string here = tensor_where(where, name);
    const DType dtype = dtype_field(tensor, here);
    directory.tensors.emplace(
        name,
        DirectoryTensor{dtype,
                        json_shape(field(tensor, "shape", here), dtype_bytes(dtype), "shape", here),
                        line_of(field(tensor, "line", here), bytes, here)});
  }
  return directory;
}

std::string_view checked_line(std::string_view pieces, const IndexLine& line,
                              const std::string& where) {
  const std::string_view text =
      pieces.substr(static_cast<size_t>(line.offset), static_cast<size_t>(line.bytes));
  VIADUCT_CHECK(IoError, static_cast<int64_t>(text.size()) == line.bytes,
                "{}: its line ends after the end of the file", where);
  const uint64_t sum = hash64(text);
  VIADUCT_CHECK(IoError, sum == line.checksum,
                "{}: the line of {} bytes at {}: checksum {:016x}, expected {:016x}: the file is "
                "damaged",
                where, line.bytes, line.offset, sum, line.checksum);
  return text;
}

std::vector<StoredFile> parse_shards_line(std::string_view line, const std::string& where) {
  return files_of(parse_json<Json>(line, where, {.depth = 4}), "shards", where);
}

StoredTensor parse_tensor_line(std::string_view line, const DirectoryTensor& tensor, int64_t shards,
                               const std::string& where) {
  StoredTensor stored{
      tensor.dtype, tensor.shape,
      parse_pieces(parse_json<Json>(line, where, {.depth = 8}), tensor.shape, shards, where)};
  check_tensor_complete(stored, where);
  return stored;
}

}  // namespace viaduct
