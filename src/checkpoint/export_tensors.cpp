#include "checkpoint/export_tensors.h"

#include <fmt/ranges.h>

#include <set>

#include "base/error.h"
#include "base/nearest.h"
#include "checkpoint/fp8_blocks.h"
#include "model/family.h"
#include "model/parameter_maker.h"

namespace viaduct {
namespace {

struct Named {
  std::string_view name;
  ExportFormat format;
  bool only_in_gguf = false;
};
constexpr Named kFormats[] = {
    {"fp32", ExportFormat::fp32},           {"bf16", ExportFormat::bf16},
    {"fp16", ExportFormat::fp16},           {"fp8", ExportFormat::fp8},
    {"q8_0", ExportFormat::q8_0, true},     {"q4_0", ExportFormat::q4_0, true},
    {"q4_1", ExportFormat::q4_1, true},     {"q5_0", ExportFormat::q5_0, true},
    {"q5_1", ExportFormat::q5_1, true},     {"q4_k_s", ExportFormat::q4_k_s, true},
    {"q4_k_m", ExportFormat::q4_k_m, true}, {"q5_k_s", ExportFormat::q5_k_s, true},
    {"q5_k_m", ExportFormat::q5_k_m, true}, {"q6_k", ExportFormat::q6_k, true}};

constexpr std::string_view kWeight = ".weight";

/// The modules of all layers whose matrices FP8 exports quantize.
std::set<std::string> block_modules(const ModelConfig& model) {
  const TensorNames& names = model_family(model.family).names;
  std::set<std::string> modules;
  for (const std::string& name : {names.qkv, names.q, names.k, names.v, names.projection,
                                  names.gate, names.up, names.gate_up, names.down}) {
    for (int64_t layer = 0; layer < model.layers + model.mtp_layers && !name.empty(); ++layer)
      modules.insert(fmt::format(fmt::runtime(name), layer));
  }
  return modules;
}

}  // namespace

ExportFormat export_format(std::string_view name) {
  std::vector<std::string> known;
  for (const Named& one : kFormats) {
    if (one.name == name) return one.format;
    known.emplace_back(one.name);
  }
  // Their neighbours are other formats, not what was meant.
  for (const std::string_view quantized :
       {"q1_", "q2_", "q3_", "q4_", "q5_", "q6_", "q8_", "mxfp4", "nvfp4", "iq", "tq"}) {
    VIADUCT_CHECK(
        ConfigError, !name.starts_with(quantized),
        "--dtype {}: GGUF files are not written in this format; the quantized ones that are: {}",
        name, gguf_format_names());
  }
  const auto near = nearest_name(name, known);
  fail<ConfigError>("--dtype: unknown format \"{}\"{}; supported are {}", name,
                    near ? fmt::format(" (did you mean {}?)", *near) : "", fmt::join(known, ", "));
}

std::string_view export_format_name(ExportFormat format) {
  for (const Named& one : kFormats)
    if (one.format == format) return one.name;
  return "";
}

bool only_in_gguf(ExportFormat format) {
  for (const Named& one : kFormats)
    if (one.format == format) return one.only_in_gguf;
  return false;
}

std::string gguf_format_names() {
  std::string names;
  for (const Named& one : kFormats) {
    if (!one.only_in_gguf) continue;
    if (!names.empty()) names += ", ";
    names += one.name;
  }
  return names;
}

DType plain_dtype(ExportFormat format) {
  switch (format) {
    case ExportFormat::bf16:
    case ExportFormat::fp8:
      return DType::bf16;
    case ExportFormat::fp16:
      return DType::f16;
    default:
      return DType::f32;
  }
}

ExportTensors::ExportTensors(const TensorSource& source, const ModelConfig& model,
                             std::optional<ExportFormat> format)
    : source_(source) {
  const TensorNames& names = model_family(model.family).names;
  const bool fp8 = format == ExportFormat::fp8;
  VIADUCT_CHECK(ConfigError, !format || !only_in_gguf(*format),
                "--dtype {} is a format of GGUF files; a Hugging Face folder takes fp32, bf16, "
                "fp16 or fp8",
                export_format_name(*format));
  VIADUCT_CHECK(ConfigError, !fp8 || !names.transposed,
                "--dtype fp8: Hugging Face's FP8 format is for weights of linear layers, but the "
                "matrices of {} are stored transposed; use bf16 or fp16",
                model.family);
  const std::set<std::string> modules = fp8 ? block_modules(model) : std::set<std::string>{};
  for (const TensorInfo& info : source.tensors()) {
    if (!format || !is_floating(info.dtype)) {
      add(info, {info.name});
      continue;
    }
    const bool matrix = info.shape.rank() == 2 && info.name.ends_with(kWeight);
    const std::string module =
        matrix ? info.name.substr(0, info.name.size() - kWeight.size()) : info.name;
    if (fp8 && matrix && modules.contains(module)) {
      add({info.name, DType::e4m3, info.shape}, {info.name, Made::Part::codes});
      const auto blocks = [](int64_t size) { return (size + kFp8Block - 1) / kFp8Block; };
      add({info.name + "_scale_inv", DType::f32, {blocks(info.shape[0]), blocks(info.shape[1])}},
          {info.name, Made::Part::scales});
      continue;
    }
    if (fp8 && matrix && module != names.token_embedding) unquantized_.push_back(module);
    add({info.name, plain_dtype(*format), info.shape}, {info.name});
  }
  add_copies(model, names);
  add_constants(model, names);
}

void ExportTensors::add_copies(const ModelConfig& model, const TensorNames& names) {
  const std::string& head = model.tied_embeddings ? names.token_embedding : names.head;
  for (int64_t layer = model.layers; layer < model.layers + model.mtp_layers; ++layer) {
    const std::pair<std::string, std::string> copies[] = {
        {names.mtp_token_embedding, names.token_embedding}, {names.mtp_head, head}};
    for (const auto& [pattern, of] : copies) {
      const std::string module = ParameterMaker::at(pattern, layer);
      const auto table = place_.find(of + std::string(kWeight));
      if (table == place_.end() || place_.contains(module + std::string(kWeight))) continue;
      TensorInfo info = infos_[table->second];
      info.name = module + std::string(kWeight);
      add(info, made_[table->second]);
      if (pattern == names.mtp_head) unquantized_.push_back(module);
    }
  }
}

void ExportTensors::add_constants(const ModelConfig& model, const TensorNames& names) {
  if (!model.xielu) return;
  for (int64_t layer = 0; layer < model.layers; ++layer) {
    const auto slope = place_.find(ParameterMaker::at(names.alpha_p, layer));
    for (const auto& [pattern, value] : names.constants) {
      const std::string name = ParameterMaker::at(pattern, layer);
      if (slope == place_.end() || place_.contains(name)) continue;
      add({name, infos_[slope->second].dtype, {}}, {name, Made::Part::constant, value});
    }
  }
}

void ExportTensors::add(TensorInfo info, Made made) {
  place_.emplace(info.name, infos_.size());
  infos_.push_back(std::move(info));
  made_.push_back(std::move(made));
}

Tensor ExportTensors::tensor(const std::string& name) {
  const auto at = place_.find(name);
  VIADUCT_CHECK(IoError, at != place_.end(), "{}: no tensor \"{}\"", source_.where(), name);
  const Made& made = made_[at->second];
  if (made.part == Made::Part::constant) {
    const Tensor number = host_tensor(DType::f32, {});
    *number.data<float>() = static_cast<float>(made.value);
    Rounding not_a_weight;
    return rounded_tensor(number, infos_[at->second].dtype, name, not_a_weight);
  }
  const Tensor stored = source_.tensor(made.from);
  switch (made.part) {
    case Made::Part::codes:
      return fp8_block_codes(stored, made.from, rounding_);
    case Made::Part::scales:
      return fp8_block_scales(stored, made.from);
    case Made::Part::constant:
    case Made::Part::whole:
      break;
  }
  const DType dtype = infos_[at->second].dtype;
  return is_floating(dtype) ? rounded_tensor(stored, dtype, made.from, rounding_) : stored;
}

}  // namespace viaduct
