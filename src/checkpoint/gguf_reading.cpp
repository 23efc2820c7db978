// A GGUF file as a model under Hugging Face's names.

#include <algorithm>
#include <bit>

#include "base/error.h"
#include "base/json_reader.h"
#include "checkpoint/gguf_adapter.h"
#include "checkpoint/gguf_config.h"
#include "checkpoint/gguf_file.h"
#include "checkpoint/gguf_model.h"
#include "checkpoint/gguf_rope.h"
#include "checkpoint/gguf_tokenizer.h"
#include "checkpoint/gguf_weights.h"
#include "model/family.h"

namespace viaduct {
namespace {

/// The tensors of a file under Hugging Face's names.
class GgufWeights : public TensorSource {
 public:
  GgufWeights(GgufFile file, const ModelConfig& model) : file_(std::move(file)) {
    const auto weights = gguf_weights(model);
    const DType common = matrices_format();
    for (const TensorInfo& stored : file_.tensors()) {
      if (stored.name == kRopeFactors) continue;
      const auto at = weights.find(stored.name);
      VIADUCT_CHECK(IoError, at != weights.end(), "{}: tensor \"{}\" has no place in a {} model",
                    where(), shown_name(stored.name), model.family);
      const GgufWeight& weight = at->second;
      TensorInfo info{weight.name, stored.dtype, changed_shape(stored.shape, weight)};
      if (weight.change == GgufWeight::Change::offset) info.dtype = DType::f32;
      const bool small = stored.shape.rank() == 1 || stored.name == "position_embd.weight";
      if (small && info.dtype == DType::f32 && common != DType::f32 &&
          fits(from_gguf(file_.tensor(stored.name), weight), common))
        info.dtype = common;
      index_[info.name] = infos_.size();
      infos_.push_back(std::move(info));
      weights_.push_back(weight);
    }
    check_read();
  }

  const std::vector<TensorInfo>& tensors() const override { return infos_; }
  Tensor tensor(const std::string& name) const override {
    const auto at = index_.find(name);
    if (at == index_.end()) fail_missing(name);
    const GgufWeight& weight = weights_[at->second];
    const Tensor made = from_gguf(file_.tensor(weight.gguf), weight);
    Rounding exact;
    return rounded_tensor(made, infos_[at->second].dtype, name, exact);
  }
  /// Reads and decodes only what the piece needs.
  void read_into(const std::string& name, const Piece& piece,
                 std::byte* destination) const override {
    const auto at = index_.find(name);
    if (at == index_.end()) fail_missing(name);
    const GgufWeight& weight = weights_[at->second];
    const TensorInfo& info = infos_[at->second];
    // Only vectors change their format.
    if (weight.change == GgufWeight::Change::offset || file_.find(weight.gguf)->dtype != info.dtype)
      return TensorSource::read_into(name, piece, destination);
    check_inside(name, info.shape, piece);
    if (piece.elements() == 0) return;
    switch (weight.change) {
      case GgufWeight::Change::pairs:
        return read_rows(info, weight, piece, destination);
      case GgufWeight::Change::transposed:
        if (info.shape.rank() == 2) return read_transposed(info, weight, piece, destination);
        [[fallthrough]];
      default:
        file_.read_into(weight.gguf, piece, destination);
    }
  }
  std::optional<GgufTensorType> block_type(const std::string& name) const override {
    const auto at = index_.find(name);
    if (at == index_.end()) fail_missing(name);
    // The rows of a file's matrix are the output features, in whatever order.
    return file_.block_type(weights_[at->second].gguf);
  }
  void read_blocks(const std::string& name, int64_t row, int64_t column, int64_t columns,
                   std::byte* destination) const override {
    const auto at = index_.find(name);
    if (at == index_.end()) fail_missing(name);
    const GgufWeight& weight = weights_[at->second];
    if (weight.change == GgufWeight::Change::pairs)
      row = row_in_gguf(row, infos_[at->second].shape[0], weight);
    file_.read_blocks(weight.gguf, row, column, columns, destination);
  }
  void check_read() const override { file_.check_read(); }
  std::string where() const override { return file_.where(); }
  const TensorInfo* find(const std::string& name) const override {
    const auto at = index_.find(name);
    return at == index_.end() ? nullptr : &infos_[at->second];
  }

 private:
  void read_rows(const TensorInfo& info, const GgufWeight& weight, const Piece& piece,
                 std::byte* destination) const {
    const int64_t row_size = piece.box.size.without_first().elements();
    for (int64_t at = piece.begin; at < piece.end;) {
      const int64_t row = piece.box.begin[0] + at / row_size, first = at % row_size;
      Piece one{piece.box, first, std::min(row_size, first + piece.end - at)};
      one.box.begin[0] = row_in_gguf(row, info.shape[0], weight);
      one.box.size[0] = 1;
      file_.read_into(weight.gguf, one, destination);
      destination += one.elements() * dtype_bytes(info.dtype);
      at += one.elements();
    }
  }

  void read_transposed(const TensorInfo& info, const GgufWeight& weight, const Piece& piece,
                       std::byte* destination) const {
    const int64_t row_size = piece.box.size[1];
    const int64_t first = piece.box.begin[0] + piece.begin / row_size;
    const int64_t last = piece.box.begin[0] + (piece.end + row_size - 1) / row_size;
    const Box rows{{first, piece.box.begin[1]}, {last - first, row_size}};
    const Box columns{{rows.begin[1], rows.begin[0]}, {rows.size[1], rows.size[0]}};
    const Tensor stored = host_tensor(info.dtype, columns.size);
    file_.read_into(weight.gguf, whole_piece(columns), static_cast<std::byte*>(stored.raw()));
    const Tensor made = from_gguf(stored, weight);
    copy_shared(whole_piece(rows), static_cast<const std::byte*>(made.raw()), piece, destination,
                dtype_bytes(info.dtype));
  }

  /// BF16 or FP16 where all matrices have it, else FP32.
  DType matrices_format() const {
    std::optional<DType> common;
    for (const TensorInfo& info : file_.tensors()) {
      if (info.shape.rank() < 2 || info.name == "position_embd.weight") continue;
      if (common && *common != info.dtype) return DType::f32;
      common = info.dtype;
    }
    return common == DType::bf16 || common == DType::f16 ? *common : DType::f32;
  }
  static bool fits(const Tensor& tensor, DType dtype) {
    bool exact = true;
    const auto* values = tensor.data<float>();
    for (int64_t i = 0; i < tensor.elements() && exact; ++i) {
      const float value = values[i];
      const float stored = dtype == DType::bf16 ? static_cast<float>(static_cast<bfloat16>(value))
                                                : static_cast<float>(static_cast<float16>(value));
      exact = std::bit_cast<uint32_t>(stored) == std::bit_cast<uint32_t>(value);
    }
    return exact;
  }

  GgufFile file_;
  std::vector<TensorInfo> infos_;
  std::vector<GgufWeight> weights_;  // of the same place in infos_
  std::unordered_map<std::string, size_t> index_;
};

}  // namespace

std::string gguf_config_text(const GgufFile& file) {
  refuse_gguf_adapter(file);
  const GgufKeys& keys = file.head().keys;
  const int64_t parts = keys.integer("split.count", 1);
  VIADUCT_CHECK(ConfigError, parts <= 1,
                "{}: is one of {} files that hold the model together; only whole models are read: "
                "join them with llama.cpp (llama-gguf-split --merge FIRST_PART WHOLE.gguf)",
                file.where(), parts);
  const Tensor factors = file.contains(kRopeFactors) ? file.tensor(kRopeFactors) : Tensor();
  VIADUCT_CHECK(IoError, !factors || factors.dtype() == DType::f32, "{}: {} is {}, expected F32",
                file.where(), kRopeFactors, describe(factors));
  return config_of_gguf(file.head(), factors);
}

std::unique_ptr<TensorSource> gguf_model_weights(GgufFile file, const std::string& config) {
  const ModelConfig model = read_hf_config(config, file.where());
  return std::make_unique<GgufWeights>(std::move(file), model);
}

GgufModel read_gguf(const std::filesystem::path& path) {
  return read_gguf(GgufFile(path));
}

GgufModel read_gguf(GgufFile file) {
  GgufModel read;
  read.name = file.head().keys.text("general.name", "");
  read.config = gguf_config_text(file);
  read.files = tokenizer_of_gguf(file.head().keys, read.notes);
  read.weights = gguf_model_weights(std::move(file), read.config);
  return read;
}

}  // namespace viaduct
