// Any bytes as an adapter's folder: opened for a model with experts, read to the last byte and
// written again, or refused. The input is adapter_config.json and adapter_model.safetensors, with a
// zero byte between.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "base/error.h"
#include "base/file.h"
#include "checkpoint/peft_folder.h"
#include "model/family.h"
#include "support/temporary_folder.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace viaduct;
  static const test::TemporaryFolder kFolder;
  static const ModelConfig kModel = read_hf_config(
      R"({"model_type": "mixtral", "vocab_size": 8, "hidden_size": 4, "intermediate_size": 4,
          "num_hidden_layers": 2, "num_attention_heads": 2, "num_key_value_heads": 2,
          "num_local_experts": 2, "num_experts_per_tok": 2, "max_position_embeddings": 8,
          "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "hidden_act": "silu",
          "tie_word_embeddings": false})",
      "config.json");
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const size_t end = std::min(input.find('\0'), size);
  write_file_atomically(kFolder / kAdapterConfigFile, std::string(input.substr(0, end)));
  write_file_atomically(kFolder / kAdapterWeightsFile,
                        std::string(input.substr(std::min(end + 1, size))));
  std::filesystem::remove_all(kFolder / "written");
  try {
    const PeftAdapter adapter = open_adapter(kFolder.path(), kModel);
    write_peft_folder(adapter, kModel, kFolder / "written");
  } catch (const Error&) {
    return 0;  // Refused with a message, as expected.
  }
  open_adapter(kFolder / "written", kModel);  // must not throw
  return 0;
}
