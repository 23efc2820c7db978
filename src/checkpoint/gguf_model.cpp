// Writing; gguf_reading.cpp reads.

#include "checkpoint/gguf_model.h"

#include <algorithm>

#include "base/error.h"
#include "base/file.h"
#include "base/json_reader.h"
#include "base/thread_pool.h"
#include "checkpoint/gguf_config.h"
#include "checkpoint/gguf_file.h"
#include "checkpoint/gguf_mixture.h"
#include "checkpoint/gguf_quantized_tensor.h"
#include "checkpoint/gguf_rope.h"
#include "checkpoint/gguf_tokenizer.h"
#include "checkpoint/gguf_weights.h"
#include "checkpoint/safetensors_writer.h"
#include "model/family.h"
#include "tensor/contiguous_runs.h"

namespace viaduct {
namespace {

/// One tensor of the file to write.
struct Planned {
  std::string from;  // the source's name; "": the factors of rotary frequencies
  GgufWeight weight;
};

GgufTensorType type_of(DType dtype, const std::string& name) {
  switch (dtype) {
    case DType::f32:
      return GgufTensorType::f32;
    case DType::f16:
      return GgufTensorType::f16;
    case DType::bf16:
      return GgufTensorType::bf16;
    default:
      fail<ConfigError>(
          "GGUF: tensor \"{}\" is {}, which llama.cpp does not read; choose a format with --dtype",
          shown_name(name), dtype_name(dtype));
  }
}

GgufChoice written_type(const ModelConfig& model, const TensorInfo& info, const GgufWeight& weight,
                        std::optional<ExportFormat> format) {
  GgufTensorType type = GgufTensorType::f32;
  if (info.shape.rank() >= 2 && weight.gguf != "position_embd.weight") {
    if (format && only_in_gguf(*format))
      return choose_gguf_type(*format, model, weight.gguf,
                              changed_shape(info.shape, weight).dim(-1));
    type = type_of(format ? plain_dtype(*format) : info.dtype, info.name);
  }
  return {type, type};
}

/// llama.cpp's number for the format of most tensors (llama_ftype).
int64_t file_type(const std::vector<GgufTensor>& tensors) {
  std::map<GgufTensorType, int64_t> bytes;
  for (const GgufTensor& tensor : tensors) bytes[tensor.type] += tensor.bytes();
  GgufTensorType most = GgufTensorType::f32;
  for (const auto& [type, sum] : bytes)
    if (sum > bytes[most]) most = type;
  switch (most) {
    case GgufTensorType::f16:
      return 1;
    case GgufTensorType::bf16:
      return 32;
    default:
      return 0;
  }
}

/// Tensors that do not have the types that their format wants.
class OtherTypes {
 public:
  void add(const std::string& name, GgufChoice choice) {
    if (choice.type != choice.wanted) names_[{choice.wanted, choice.type}].push_back(name);
  }
  void add_notes(std::vector<std::string>& notes) const {
    constexpr size_t kShown = 3;
    for (const auto& [types, names] : names_) {
      std::string shown;
      for (size_t i = 0; i < std::min(names.size(), kShown); ++i)
        shown += (i > 0 ? ", " : "") + names[i];
      if (names.size() > kShown) shown += fmt::format(" and {} more", names.size() - kShown);
      const GgufType &wanted = gguf_type(types.first), &type = gguf_type(types.second);
      notes.push_back(
          fmt::format("GGUF: rows of {} are not a multiple of {}; stored as {} instead of {}",
                      shown, wanted.block, type.name, wanted.name));
    }
  }

 private:
  std::map<std::pair<GgufTensorType, GgufTensorType>, std::vector<std::string>> names_;
};

/// The tensors of the source that go into a file, and their form there.
std::vector<Planned> plan_tensors(const ModelConfig& model, const TensorSource& weights) {
  const TensorNames& names = model_family(model.family).names;
  std::map<std::string, GgufWeight> by_name;
  for (const auto& [gguf, weight] : gguf_weights(model)) by_name[weight.name] = weight;
  std::vector<Planned> planned;
  for (const TensorInfo& info : weights.tensors()) {
    auto at = by_name.find(info.name);
    if (at == by_name.end()) at = by_name.find(names.optional_prefix + info.name);
    if (at == by_name.end()) {
      const bool table =
          std::any_of(names.ignored_suffixes.begin(), names.ignored_suffixes.end(),
                      [&](const std::string& suffix) { return info.name.ends_with(suffix); });
      VIADUCT_CHECK(ConfigError, table, "GGUF: there is no name for tensor \"{}\" of a {} model",
                    shown_name(info.name), model.family);
      continue;
    }
    if (model.tied_embeddings && at->second.gguf == "output.weight") continue;
    planned.push_back({info.name, at->second});
  }
  if (model.positions == PositionKind::rotary && model.rotary.scaling == RopeScalingKind::llama3)
    planned.push_back({"", {kRopeFactors, kRopeFactors}});
  return planned;
}

}  // namespace

GgufWritten write_gguf(const std::filesystem::path& path, std::string_view name,
                       const ModelConfig& model, const TensorSource& weights,
                       const TokenizerFiles& side_files, std::optional<ExportFormat> format) {
  VIADUCT_CHECK(ConfigError, format != ExportFormat::fp8,
                "--dtype fp8: GGUF has no FP8 tensors; its 8-bit format is q8_0");
  const bool quantized = format && only_in_gguf(*format);
  GgufHeadWriter head;
  GgufWritten written;
  add_gguf_config(head, model);
  head.add_text("general.name", name);
  written.notes = add_gguf_tokenizer(head, model, side_files);

  const std::vector<Planned> planned = plan_tensors(model, weights);
  OtherTypes others;
  for (const Planned& tensor : planned) {
    if (tensor.from.empty()) {
      head.add_tensor({kRopeFactors, GgufTensorType::f32, {model.rotary.width / 2}});
      continue;
    }
    const TensorInfo& info = *weights.find(tensor.from);
    const GgufChoice choice = written_type(model, info, tensor.weight, format);
    others.add(tensor.weight.gguf, choice);
    head.add_tensor({tensor.weight.gguf, choice.type, changed_shape(info.shape, tensor.weight)});
  }
  others.add_notes(written.notes);
  head.add_u32("general.file_type",
               quantized ? gguf_file_type(*format) : file_type(head.tensors()));
  if (quantized) head.add_u32("general.quantization_version", 2);
  const Tensor factors =
      model.positions == PositionKind::rotary && model.rotary.scaling == RopeScalingKind::llama3
          ? gguf_rope_factors(model.rotary)
          : Tensor();
  const std::string bytes = head.head();
  for (std::string& note :
       check_gguf_config(model, parse_gguf(bytes, path.string(), GgufContent::head), factors))
    written.notes.push_back(std::move(note));

  remove_unfinished(path);
  OutputFile file(path);
  file.write(bytes);
  const std::string padding(static_cast<size_t>(kGgufAlignment), '\0');
  std::optional<ThreadPool> pool;
  if (quantized) pool.emplace(default_pool_threads(1));
  for (size_t i = 0; i < planned.size(); ++i) {
    const GgufTensor& entry = head.tensors()[i];
    const std::string& from = planned[i].from;
    Tensor tensor = factors;
    if (!from.empty()) {
      tensor = to_gguf(weights.tensor(from), planned[i].weight);
      const GgufType& type = gguf_type(entry.type);
      tensor = type.quantized()
                   ? quantized_tensor(tensor, entry.type, from, &*pool, written.rounding)
                   : rounded_tensor(tensor, type.dtype, from, written.rounding);
    }
    VIADUCT_CHECK(ShapeError, tensor.bytes() == entry.bytes(),
                  "{}: tensor \"{}\" is {}, expected {}", path.string(), entry.name,
                  describe(tensor), to_string(entry.shape));
    for_each_run(tensor, [&](const void* data, size_t size) { file.write(data, size); });
    const int64_t rest = aligned_for_gguf(entry.bytes()) - entry.bytes();
    file.write(std::string_view(padding).substr(0, static_cast<size_t>(rest)));
    ++written.tensors;
    written.bytes += entry.bytes();
  }
  weights.check_read();
  file.commit();
  return written;
}

}  // namespace viaduct
