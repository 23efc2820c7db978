#include "support/picture_conversations.h"

#include "base/file.h"
#include "base/output_file.h"
#include "image/image_index.h"
#include "support/paths.h"

namespace viaduct::test {
namespace {

constexpr int32_t kImageToken = 5;  // of the model

}  // namespace

PictureConversations::PictureConversations(const std::string& first, int64_t tokens) {
  std::filesystem::copy(test_data("golden") / "llava_clip" / "model", model());
  write_file_atomically(model() / "preprocessor_config.json",
                        R"({"image_processor_type": "CLIPImageProcessor", "size": 12,
                            "crop_size": 12})");
  std::vector<PictureFile> files;
  for (const std::string& name : {first, std::string("rgb.jpg")}) {
    write_file_atomically(folder_ / name, read_file(test_data("images") / name));
    files.push_back(read_picture_file(folder_ / name));
  }
  ImageIndexWriter images(folder_ / "chats", {kImageToken, tokens});
  // Of each conversation, the numbers of its pictures.
  const std::vector<std::vector<size_t>> shown{{0}, {}, {1, 0}, {1}, {0}};
  for (size_t c = 0; c < shown.size(); ++c) {
    MaskedTokens one;
    const auto add = [&](int32_t token, int32_t scored) {
      one.tokens.push_back(token);
      one.mask.push_back(scored);
    };
    std::vector<PictureFile> of_row;
    add(1, 0);
    for (const size_t picture : shown[c]) {
      for (int64_t i = 0; i < tokens; ++i) add(kImageToken, 0);
      of_row.push_back(files[picture]);
      add(static_cast<int32_t>(10 + c), 0);
    }
    for (int32_t t = 0; t < 4; ++t) add(static_cast<int32_t>(20 + 5 * c) + t, 1);
    conversations_.push_back(std::move(one));
    images.add_row(of_row);
  }
  write_conversations(prefix(), conversations_);
  images.finish();
}

Overrides PictureConversations::run() const {
  return {"checkpoint.pretrained_checkpoint=" + model().string(),
          "dataset.blend=[1.0," + prefix() + "]",
          "dataset.split=1,0,0",
          "model.seq_length=16",
          "mixed_precision=fp32",
          "train.train_iters=2",
          "train.global_batch_size=5",
          "train.micro_batch_size=5",
          "optimizer.lr=1e-2",
          "scheduler.lr_warmup_iters=0",
          "validation.eval_iters=0",
          "dist.threads_per_rank=1"};
}

}  // namespace viaduct::test
