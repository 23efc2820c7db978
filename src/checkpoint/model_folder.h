#pragma once
// DIR of the command line: a Hugging Face folder, a GGUF file, a checkpoint step folder, a save
// folder (= its latest step), SAVE/latest or SAVE/best (= the step that it names), or the name of a
// model in the local cache of the Hugging Face Hub (base/hub_cache.h). And the files that belong to
// a model beside its weights.

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "checkpoint/checkpoint_reader.h"
#include "checkpoint/tensor_source.h"
#include "data/tokenizer/tokenizer.h"
#include "data/tokenizer/tokenizer_files.h"
#include "model/model_config.h"
#include "tensor/dtype.h"

namespace viaduct {

enum class ModelFolderKind { hugging_face, gguf, checkpoint };

struct ModelFolder {
  ModelFolderKind kind = ModelFolderKind::hugging_face;
  /// What holds config.json, tokenizer files and weights: DIR, or the step folder in it.
  std::filesystem::path path;
  /// Whether a model that takes images is opened with its layers for them, where these are
  /// implemented (model/vision_config.h); else as its text model.
  ImageLayers images = ImageLayers::left_out;
};

/// The kind of `folder`. ConfigError if it is missing or another file, for weights of PyTorch with
/// the reason and what converts them, and for a folder of PEFT with the option that takes it;
/// IoError if it is a folder of no kind: a save folder without a complete step, or any other folder
/// (the message names what is missing). Checks only that files exist; does not read them.
ModelFolder resolve_model_folder(const std::filesystem::path& folder);

/// Whether `folder` itself holds a Hugging Face model: a checkpoint that is saved there would hide
/// it.
bool holds_hugging_face_model(const std::filesystem::path& folder);

/// The weights of a model folder under their Hugging Face names: of a Hugging Face folder all
/// tensors (of one with images those of its text model, or all: ModelFolder::images), quantized
/// matrices as BF16 (checkpoint/quantized_weights.h), of a GGUF file as gguf_model.h says, of a
/// checkpoint those that are weights (is_weight_name).
std::unique_ptr<TensorSource> open_weights(const ModelFolder& folder);

/// The type of most of the values that `open_weights` gives: f16, bf16, or f32 for any other and
/// without weights.
DType type_of_weights(const ModelFolder& folder);

/// The text of the folder's config.json, which the metadata of a GGUF file stand for, of a model
/// that takes images too that of its text model (model/text_half.h), unless they are read; IoError
/// if it is missing or absurdly large.
std::string read_config_text(const ModelFolder& folder);
/// The architecture it describes; ConfigError also for quantized weights that are not supported.
ModelConfig read_model_config(const ModelFolder& folder);

/// What the model is called: as its config.json says (_name_or_path) or a GGUF file (general.name),
/// else like the folder or file; a step has the name of its save folder.
std::string model_name(const ModelFolder& folder);

/// The files of a tokenizer, chat templates included: those of a folder, or what the metadata of a
/// GGUF file stand for; of a save folder those of its latest step. ConfigError if the path is
/// missing, or for a GGUF file whose tokenizer is not supported.
TokenizerFiles open_tokenizer_files(const std::filesystem::path& path);
/// A tokenizer of those files; errors as load_tokenizer.
Tokenizer open_tokenizer(const std::filesystem::path& path);
/// Whether there is one to open.
bool has_tokenizer(const std::filesystem::path& path);
/// Tokenizer and generation settings by the names of their files, of a folder or a GGUF file.
std::map<std::string, std::string> model_side_texts(const std::filesystem::path& path);

/// Names that settings of tokenizer, generation and pictures have in Hugging Face folders; those of
/// additional_chat_templates are any.
const std::vector<std::string>& model_side_file_names();
/// The names of such files that are in `folder`, with additional_chat_templates/NAME.jinja.
std::vector<std::string> model_side_files(const std::filesystem::path& folder);
/// Copies model_side_files of one folder into another (created if missing), each whole or not at
/// all. Files of the target that `from` lacks are kept.
void copy_model_side_files(const std::filesystem::path& from, const std::filesystem::path& to);

}  // namespace viaduct
