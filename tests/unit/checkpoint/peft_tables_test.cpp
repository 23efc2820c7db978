// Token tables of encoder-decoders in PEFT's files, where each stack has a module of its own.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "checkpoint/merged_weights.h"
#include "checkpoint/model_folder.h"
#include "checkpoint/peft_folder.h"
#include "checkpoint/safetensors_reader.h"
#include "checkpoint/safetensors_writer.h"
#include "model/adapter_modules.h"
#include "support/golden.h"
#include "support/temporary_folder.h"
#include "support/tensor_bytes.h"

namespace viaduct {
namespace {

using nlohmann::json;
using test::bytes_of;
using test::TemporaryFolder;
using test::test_data;
using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;
using Tensors = std::map<std::string, Tensor>;

const std::string kTable = "base_model.model.shared.weight",
                  kEncoder = "base_model.model.encoder.embed_tokens.weight",
                  kDecoder = "base_model.model.decoder.embed_tokens.weight",
                  kHead = "base_model.model.lm_head.weight";

ModelConfig model_of(const std::string& name) {
  return read_model_config(resolve_model_folder(test_data("golden") / name / "model"));
}

Tensors tensors_of(const std::filesystem::path& path) {
  const SafetensorsFile file(path);
  Tensors tensors;
  for (const TensorInfo& info : file.tensors()) tensors[info.name] = file.tensor(info.name);
  return tensors;
}

/// PEFT's folder `to` of an adapter as a run has it, which trained the table.
void write_adapter(const ModelConfig& model, const std::filesystem::path& to) {
  PeftConfig config;
  config.train = {"shared"};
  config.target_modules = {"q"};
  config.dim = 2;
  PeftAdapter adapter;
  adapter.settings = choose_adapters(config, model);
  Tensors tensors{{kTable, host_tensor(DType::f32, {model.vocabulary, model.hidden})}};
  tensors[kTable].data<float>()[3] = 1;
  for (const AdaptableModule& module : adaptable_modules(model)) {
    if (adapter.settings.of(module.name) == nullptr) continue;
    tensors[kAdapterPrefix + module.name + kAdapterA] = host_tensor(DType::f32, {2, module.in});
    tensors[kAdapterPrefix + module.name + kAdapterB] = host_tensor(DType::f32, {module.out, 2});
  }
  const std::filesystem::path run = to.string() + ".safetensors";
  write_safetensors(run, tensors);
  adapter.config = peft_config_text(adapter.settings, model, "");
  adapter.tensors = std::make_unique<SafetensorsFile>(run);
  write_peft_folder(adapter, model, to);
}

class PeftTables : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override { write_adapter(model_, folder_ / "peft"); }
  std::filesystem::path file() const { return folder_ / "peft" / kAdapterWeightsFile; }
  void expect_refused(const Tensors& tensors, const std::string& one, const std::string& other) {
    write_safetensors(file(), tensors);
    EXPECT_THAT([&] { open_adapter(folder_ / "peft", model_); },
                ThrowsMessage<ConfigError>(AllOf(HasSubstr(one), HasSubstr(other))));
  }
  const TemporaryFolder folder_;
  const ModelConfig model_ = model_of(GetParam());
};

TEST_P(PeftTables, EachModuleHasACopy) {
  const json config = json::parse(read_file(folder_ / "peft" / kAdapterConfigFile));
  json saved{"shared", "encoder.embed_tokens", "decoder.embed_tokens"};
  if (model_.tied_embeddings) saved.push_back("lm_head");
  EXPECT_EQ(config.at("modules_to_save"), saved);
  EXPECT_EQ(config.at("ensure_weight_tying"), false);  // PEFT cannot load what it would tie
  const Tensors tensors = tensors_of(file());
  EXPECT_EQ(tensors.contains(kHead), model_.tied_embeddings);
  for (const std::string& copy : {kEncoder, kDecoder})
    EXPECT_EQ(bytes_of(tensors.at(copy)), bytes_of(tensors.at(kTable)));
  EXPECT_EQ(open_adapter(folder_ / "peft", model_).settings.trained,
            std::set<std::string>{"shared"});
}

TEST_P(PeftTables, ThatDifferOrAreMissingAreRefused) {
  const Tensors all = tensors_of(file());
  for (const auto& [name, value] : all) {
    if (name == kTable || name.find("lora") != std::string::npos) continue;
    Tensors changed = all;
    changed[name] = host_tensor(DType::f32, {model_.vocabulary, model_.hidden});
    expect_refused(changed, name, "differ");
    changed.erase(name);
    expect_refused(changed, "and not " + name, "viaduct train peft.train=[shared]");
  }
  // The table alone is none that the stacks read.
  Tensors changed = all;
  for (const std::string& name : {kEncoder, kDecoder, kHead}) changed.erase(name);
  expect_refused(changed, "and not " + kEncoder, "has " + kTable);
  changed = all;
  changed.erase(kTable);
  expect_refused(changed, "and not " + kTable, "has " + kEncoder);
}

/// The first files of T5 have the copies too, and transformers reads those.
TEST_P(PeftTables, AreMergedIntoAllThatTheModelHas) {
  const std::filesystem::path from = test_data("golden") / GetParam() / "model",
                              base = folder_ / "model";
  Tensors tensors = tensors_of(from / "model.safetensors");
  tensors["encoder.embed_tokens.weight"] = tensors["decoder.embed_tokens.weight"] =
      tensors.at("shared.weight");
  std::filesystem::create_directory(base);
  write_safetensors(base / "model.safetensors", tensors);
  std::filesystem::copy_file(from / "config.json", base / "config.json");
  const auto merged = merge_adapter(open_weights(resolve_model_folder(base)),
                                    open_adapter(folder_ / "peft", model_), model_, std::nullopt);
  for (const char* name : {"shared.weight", "encoder.embed_tokens.weight"})
    EXPECT_EQ(merged->tensor(name).data<float>()[3], 1) << name;
}

INSTANTIATE_TEST_SUITE_P(Families, PeftTables, testing::Values("t5", "t5_v1_1"));

}  // namespace
}  // namespace viaduct
