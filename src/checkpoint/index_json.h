#pragma once
// Conversion of the parts of a checkpoint's index to JSON and back, each checked as it is read.
// Every error is an IoError that starts with `where`.

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/checkpoint_index.h"

namespace viaduct::index_json {

using Json = nlohmann::json;

inline constexpr const char* kCheckpointFormat = "viaduct-checkpoint";

// To JSON.
std::string hex(uint64_t checksum);
std::vector<int64_t> sizes(const Shape& shape);
Json files_to_json(const std::vector<StoredFile>& files);
Json pieces_to_json(const std::vector<StoredPiece>& pieces);
Json tensor_to_json(const StoredTensor& tensor);
/// The document with its own checksum, one line for each field and each entry of "tensors".
std::string sealed_lines(Json json);

// The inverse.
/// A document of `sealed_lines` without its checksum, which is verified.
Json open_sealed(std::string_view text, const char* format, const std::string& where);
const Json& field(const Json& object, const char* name, const std::string& where);
int64_t count_field(const Json& object, const char* name, const std::string& where);
const std::string& text_field(const Json& object, const char* name, const std::string& where);
uint64_t checksum_field(const Json& object, const std::string& where);
DType dtype_field(const Json& object, const std::string& where);
/// IoError unless a checkpoint may hold a file of this name: a plain one, or
/// additional_chat_templates/NAME.jinja, the only folder in a step.
void check_side_file_name(const std::string& name, const std::string& where);
std::vector<StoredFile> files_of(const Json& array, const char* name, const std::string& where);
std::vector<StoredFile> files_field(const Json& json, const char* name, const std::string& where);
/// Pieces inside a tensor, of `shards` shards; the lengths of the shards are not checked here.
std::vector<StoredPiece> parse_pieces(const Json& json, const Shape& shape, int64_t shards,
                                      const std::string& where);
/// The piece's bytes lie inside its shard.
void check_in_shard(const StoredPiece& stored, DType dtype, const StoredFile& file,
                    const std::string& where);
StoredTensor parse_tensor(const Json& json, const std::vector<StoredFile>& shards,
                          const std::string& where);
/// A whole index, of version 1 (checkpoint_index.cpp).
CheckpointIndex parse_index(const Json& json, const std::string& where);
/// "WHERE: tensor "NAME"".
std::string tensor_where(const std::string& where, const std::string& name);

}  // namespace viaduct::index_json
