#include "checkpoint/quantization_config.h"

#include "base/error.h"
#include "base/json.h"
#include "base/json_reader.h"

namespace viaduct {
namespace {

using Json = nlohmann::json;

constexpr const char* kField = "quantization_config";
constexpr int64_t kMxGroup = 32;

std::string text_of(const Json& object, const char* name) {
  return object.contains(name) && object[name].is_string() ? object[name].get<std::string>() : "";
}

[[noreturn]] void unsupported(const std::string& where, const std::string& what) {
  fail<ConfigError>(
      "{}: {}: {} is not supported (supported: quant_method fp8, fbgemm_fp8, mxfp8, mxfp4, "
      "modelopt "
      "with quant_algo FP8 or MXFP8, compressed-tensors with 8-bit floats in format "
      "float-quantized, naive-quantized or mxfp8-quantized)",
      where, kField, what);
}

/// "weight_block_size": [rows, columns].
std::optional<QuantizationConfig::Block> block_of(const Json& object, const char* name,
                                                  const std::string& where) {
  if (!object.contains(name) || object[name].is_null()) return std::nullopt;
  const Json& pair = object[name];
  const bool sizes = pair.is_array() && pair.size() == 2;
  const auto rows = sizes ? json_count(pair[0]) : std::nullopt;
  const auto columns = sizes ? json_count(pair[1]) : std::nullopt;
  VIADUCT_CHECK(ConfigError, rows && columns && *rows > 0 && *columns > 0,
                "{}: {}: {} is {}, expected two positive sizes", where, kField, name,
                shown_name(pair.dump()));
  return QuantizationConfig::Block{*rows, *columns};
}

void read_compressed_tensors(const Json& config, QuantizationConfig& read,
                             const std::string& where) {
  const std::string format = text_of(config, "format");
  if (format != "float-quantized" && format != "naive-quantized" && format != "mxfp8-quantized")
    unsupported(where, fmt::format("format \"{}\" of compressed-tensors", shown_name(format)));
  const auto groups = config.find("config_groups");
  VIADUCT_CHECK(ConfigError, groups != config.end() && groups->is_object() && !groups->empty(),
                "{}: {}: config_groups is missing", where, kField);
  for (const auto& [name, group] : groups->items()) {
    const Json weights = group.is_object() && group.contains("weights") ? group["weights"] : Json();
    const bool fp8 = weights.is_object() && text_of(weights, "type") == "float" &&
                     weights.contains("num_bits") && weights["num_bits"] == 8;
    if (!fp8) unsupported(where, fmt::format("config_groups.{}.weights", shown_name(name)));
    if (const auto block = block_of(weights, "block_structure", where)) read.block = block;
  }
  if (format == "mxfp8-quantized") {
    read.block = {1, kMxGroup};
    read.exponents = true;
  }
}

}  // namespace

std::optional<QuantizationConfig> read_quantization_config(std::string_view config_json,
                                                           const std::string& where) {
  if (config_json.find(kField) == std::string_view::npos) return std::nullopt;
  const Json file = parse_json<Json>(config_json, where);
  if (!file.is_object() || !file.contains(kField) || file[kField].is_null()) return std::nullopt;
  const Json& config = file[kField];
  VIADUCT_CHECK(ConfigError, config.is_object(), "{}: {} is not an object", where, kField);
  QuantizationConfig read;
  read.method = text_of(config, "quant_method");
  const std::string algorithm = text_of(config, "quant_algo");
  if (read.method == "fp8") {
    const std::string format = text_of(config, "fmt");
    if (!format.empty() && format != "e4m3" && format != "float8_e4m3fn")
      unsupported(where, fmt::format("fmt \"{}\" of fp8", shown_name(format)));
    read.block = block_of(config, "weight_block_size", where);
  } else if (read.method == "fbgemm_fp8" || (read.method == "modelopt" && algorithm == "FP8")) {
    // The scales' shapes say the rest.
  } else if (read.method == "mxfp8" || (read.method == "modelopt" && algorithm == "MXFP8")) {
    read.block = {1, kMxGroup};
    read.exponents = true;
  } else if (read.method == "mxfp4") {
    read.packed_mxfp4 = true;
  } else if (read.method == "compressed-tensors") {
    read_compressed_tensors(config, read, where);
  } else if (read.method == "modelopt") {
    unsupported(where, fmt::format("quant_algo \"{}\" of modelopt", shown_name(algorithm)));
  } else {
    unsupported(where, fmt::format("quant_method \"{}\"", shown_name(read.method)));
  }
  return read;
}

std::string without_quantization_config(const std::string& config_json) {
  if (config_json.find(kField) == std::string::npos) return config_json;
  auto json = parse_json<nlohmann::ordered_json>(config_json, "config.json");
  if (json.erase(kField) == 0) return config_json;
  return json.dump(2) + "\n";
}

}  // namespace viaduct
