// Figures derived by hand from published shapes. Where the total parameter count of a model is
// published, it checks the figure: total = matmul parameters + input embedding (if untied) + norms
// + biases.
#include "model/flops.h"

#include <gtest/gtest.h>

#include <array>

#include "base/error.h"
#include "base/file.h"
#include "model/family.h"
#include "model/model_config.h"
#include "support/paths.h"

namespace viaduct {
namespace {

FlopSizes gpt2_124m() {
  return {.layers = 12,
          .hidden = 768,
          .feed_forward = 3072,
          .heads = 12,
          .key_value_heads = 12,
          .head_dim = 64,
          .vocabulary = 50257};
}
FlopSizes gpt3_175b() {
  return {.layers = 96,
          .hidden = 12288,
          .feed_forward = 49152,
          .heads = 96,
          .key_value_heads = 96,
          .head_dim = 128,
          .vocabulary = 50257};
}
FlopSizes llama3_8b() {
  return {.layers = 32,
          .hidden = 4096,
          .feed_forward = 14336,
          .heads = 32,
          .key_value_heads = 8,
          .head_dim = 128,
          .vocabulary = 128256,
          .gated_mlp = true};
}
FlopSizes llama3_70b() {
  return {.layers = 80,
          .hidden = 8192,
          .feed_forward = 28672,
          .heads = 64,
          .key_value_heads = 8,
          .head_dim = 128,
          .vocabulary = 128256,
          .gated_mlp = true};
}
FlopSizes qwen2_7b() {
  return {.layers = 28,
          .hidden = 3584,
          .feed_forward = 18944,
          .heads = 28,
          .key_value_heads = 4,
          .head_dim = 128,
          .vocabulary = 152064,
          .gated_mlp = true};
}

// Per layer 4·768² + 2·768·3072 = 12·768² = 7 077 888; ×12 = 84 934 656; head 50257·768 = 38 597
// 376; sum 123 532 032. ×6 = 741 192 192 a token. Attention at S = 1024: 6·768·1024·12 = 56 623 104
// a token.
/// Gemma 4 31B: 50 layers with 16 key-value heads of 256 dims, 10 with 4 of 512 and no values.
TEST(Flops, LayersWithoutAWindowMayHaveOtherHeads) {
  const std::string text = read_file(test::test_data("published/gemma-4-31B-it.json"));
  const FlopSizes sizes = flop_sizes(read_hf_config(text, "config.json"));
  EXPECT_EQ(sizes.full_layers, 10);
  EXPECT_EQ(matmul_parameters(sizes), 30'696'013'824.0);
  // Of 2 tokens, which no window limits: 6 · 2 · heads · D · pairs.
  const FlopCount flops = training_flops(sizes, 1, 2);
  EXPECT_EQ(flops.attention_part, 6.0 * 2 * 32 * (50 * 256 + 10 * 512) * 2);
}

/// Mixtral 8x7B: 46.7 billion parameters, of which a token uses 12.9.
TEST(Flops, OfExpertsThoseThatATokenUses) {
  FlopSizes sizes{.layers = 32,
                  .hidden = 4096,
                  .feed_forward = 14336,
                  .heads = 32,
                  .key_value_heads = 8,
                  .head_dim = 128,
                  .vocabulary = 32000,
                  .gated_mlp = true,
                  .expert_layers = 32,
                  .experts = 8,
                  .experts_of_token = 2,
                  .expert_feed_forward = 14336};
  const double attention = 32.0 * (4096.0 * 4096 * 2 + 2 * 4096.0 * 1024);
  const double experts = 32 * (2 * 3 * 4096.0 * 14336 + 8 * 4096.0), head = 4096.0 * 32000;
  EXPECT_EQ(matmul_parameters(sizes), attention + experts + head);
  EXPECT_NEAR(matmul_parameters(sizes) + head, 12.9e9, 0.05e9);
  sizes.shared_feed_forward = 100;
  EXPECT_EQ(matmul_parameters(sizes), attention + experts + head + 32 * 3 * 4096.0 * 100);
  sizes.expert_layers = 30;  // two dense ones
  EXPECT_EQ(matmul_parameters(sizes),
            attention + experts / 32 * 30 + head + 30 * 3 * 4096.0 * 100 + 2 * 3 * 4096.0 * 14336);
  sizes.expert_layers = 33;
  EXPECT_THROW(matmul_parameters(sizes), ShapeError);
}

/// DeepSeek-V2-Lite: queries from the stream, keys and values from 512 numbers; heads of 192 and
/// 128 dims. With compressed queries there are two query matrices.
TEST(Flops, OfLatentAttention) {
  FlopSizes sizes{.layers = 27,
                  .hidden = 2048,
                  .feed_forward = 10944,
                  .heads = 16,
                  .key_value_heads = 16,
                  .head_dim = 192,
                  .kv_rank = 512,
                  .plain_dim = 128,
                  .rotary_dim = 64,
                  .value_dim = 128,
                  .vocabulary = 102400,
                  .gated_mlp = true,
                  .expert_layers = 26,
                  .experts = 64,
                  .experts_of_token = 6,
                  .expert_feed_forward = 1408,
                  .shared_feed_forward = 2816};
  const double keys_and_values = 512 * (2048 + 16 * 256.0) + 2048 * 64, result = 16 * 128.0 * 2048;
  const double attention = 2048 * 16 * 192.0 + keys_and_values + result;
  const double rest =
      3 * 2048.0 * 10944 + 26 * (3 * 2048.0 * (6 * 1408 + 2816) + 2048 * 64.0) + 2048 * 102400.0;
  EXPECT_EQ(matmul_parameters(sizes), 27 * attention + rest);
  sizes.q_rank = 1536;
  EXPECT_EQ(matmul_parameters(sizes),
            27 * (attention - 2048 * 16 * 192.0 + 1536 * (2048 + 16 * 192.0)) + rest);
  // Half of the square: 3 · heads · (192 + 128) · S² in each layer.
  EXPECT_EQ(training_flops(sizes, 1, 4096).attention_part,
            27 * 3.0 * 16 * (192 + 128) * 4096 * 4096);
}

/// Two layers of multi-token prediction as in DeepSeek-V3: each has a block like the last one, a
/// projection of both inputs, and the head once more.
TEST(Flops, OfMultiTokenPrediction) {
  FlopSizes sizes = llama3_8b();
  const double plain = matmul_parameters(sizes), h = 4096, head = h * 128256;
  sizes.mtp_layers = 2;
  const double block = (plain - head) / 32;
  EXPECT_EQ(matmul_parameters(sizes), plain + 2 * (block + 2 * h * h + head));
  EXPECT_EQ(training_flops(sizes, 1, 1024).attention_part, 34 * 6 * h * 1024 * 1024);
  sizes.sliding_windows.assign(32, 0);
  sizes.sliding_windows.back() = 256;
  EXPECT_EQ(training_flops(sizes, 1, 1024).attention_part,
            31 * 6 * h * 1024 * 1024 + 3 * 12 * h * (1024 * 256 - 256 * 256 / 2));
  FlopSizes experts = sizes;
  experts.expert_layers = 1, experts.experts = 8, experts.experts_of_token = 2;
  experts.expert_feed_forward = 100;
  const double dense = matmul_parameters(experts);
  experts.mtp_experts = true;
  EXPECT_EQ(matmul_parameters(experts) - dense,
            2 * (3 * h * 200 + 8 * h - 3 * h * static_cast<double>(sizes.feed_forward)));
}

TEST(Flops, Gpt2Small) {
  EXPECT_EQ(matmul_parameters(gpt2_124m()), 123532032.0);
  const FlopCount one = training_flops(gpt2_124m(), 1, 1024);
  EXPECT_EQ(one.token_part, 741192192.0 * 1024);
  EXPECT_EQ(one.attention_part, 56623104.0 * 1024);
  EXPECT_EQ(one.model(), 797815296.0 * 1024);
  EXPECT_EQ(one.full(), (741192192.0 + 2 * 56623104.0) * 1024);
}

// 96 · 12·12288² = 96 · 1 811 939 328 = 173 946 175 488; head 50257·12288 = 617 558 016; sum 174
// 563 733 504. ×6 = 1 047 382 401 024 a token; attention at S = 2048: 6·12288·2048·96 = 14 495 514
// 624 a token.
TEST(Flops, Gpt3) {
  EXPECT_EQ(matmul_parameters(gpt3_175b()), 174563733504.0);
  const FlopCount count = training_flops(gpt3_175b(), 1536, 2048);
  EXPECT_EQ(count.token_part, 1047382401024.0 * 1536 * 2048);
  EXPECT_EQ(count.attention_part, 14495514624.0 * 1536 * 2048);
  // The published closed form without recomputation, 72·B·S·L·h²·(1 + S/6h + V/12Lh), is the
  // uncausal count.
  const double closed = 72.0 * 1536 * 2048 * 96 * 12288.0 * 12288 *
                        (1 + 2048 / (6.0 * 12288) + 50257 / (12.0 * 96 * 12288));
  EXPECT_NEAR(count.full() / closed, 1, 1e-12);
}

// Layer: q and o 2·4096² = 33 554 432; k and v 2·4096·1024 = 8 388 608; MLP 3·4096·14336 = 176 160
// 768; sum 218 103 808. ×32 = 6 979 321 856; head 128256·4096 = 525 336 576; sum 7 504 658 432.
// Published total 8 030 261 248 = that + embedding 525 336 576 + 65 norms of 4096.
TEST(Flops, Llama3Of8B) {
  EXPECT_EQ(matmul_parameters(llama3_8b()), 7504658432.0);
  EXPECT_EQ(7504658432 + 525336576 + 65 * 4096, 8030261248);
  const FlopCount count = training_flops(llama3_8b(), 128, 8192);
  EXPECT_EQ(count.token_part, 45027950592.0 * 128 * 8192);
  EXPECT_EQ(count.attention_part, 6.0 * 4096 * 8192 * 32 * 128 * 8192);
}

// Layer: 2·8192² = 134 217 728; k, v 2·8192·1024 = 16 777 216; MLP 3·8192·28672 = 704 643 072; sum
// 855 638 016. ×80 = 68 451 041 280; head 128256·8192 = 1 050 673 152; sum 69 501 714 432.
// Published total 70 553 706 496 = that + embedding 1 050 673 152 + 161 norms of 8192.
TEST(Flops, Llama3Of70B) {
  EXPECT_EQ(matmul_parameters(llama3_70b()), 69501714432.0);
  EXPECT_EQ(69501714432 + 1050673152 + 161 * 8192, 70553706496);
  EXPECT_EQ(training_flops(llama3_70b(), 1, 8192).model(),
            (6 * 69501714432.0 + 6.0 * 8192 * 8192 * 80) * 8192);
}

// Layer: 2·3584² = 25 690 112; k, v 2·3584·512 = 3 670 016; MLP 3·3584·18944 = 203 685 888; sum 233
// 046 016. ×28 = 6 525 288 448; head 152064·3584 = 544 997 376; sum 7 070 285 824. Published total
// 7 615 616 512 = that + embedding 544 997 376 + 57 norms of 3584 + 28 biases of 3584 + 2·512.
TEST(Flops, Qwen2Of7B) {
  EXPECT_EQ(matmul_parameters(qwen2_7b()), 7070285824.0);
  EXPECT_EQ(7070285824 + 544997376 + 57 * 3584 + 28 * (3584 + 1024), 7615616512);
}

// Mistral 7B's window of 4096 over rows of 8192: 4096·8192 − 4096²/2 = 25 165 824 pairs instead of
// 8192²/2 = 33 554 432.
TEST(Flops, SlidingWindowCutsTheFarTriangle) {
  FlopSizes sizes = llama3_8b();
  const double causal = training_flops(sizes, 1, 8192).attention_part;
  sizes.sliding_windows.assign(32, 4096);
  EXPECT_EQ(training_flops(sizes, 1, 8192).attention_part, 12.0 * 4096 * 32 * 25165824);
  EXPECT_EQ(training_flops(sizes, 1, 8192).attention_part_full, 2 * causal);
  sizes.sliding_windows.assign(32, 8192);
  EXPECT_EQ(training_flops(sizes, 1, 8192).attention_part, causal);
  // Every second layer local, as in Gemma 2.
  for (size_t layer = 0; layer < 32; ++layer)
    sizes.sliding_windows[layer] = layer % 2 == 0 ? 4096 : 0;
  EXPECT_EQ(training_flops(sizes, 1, 8192).attention_part,
            12.0 * 4096 * 16 * (25165824.0 + 33554432.0));
}

TEST(Flops, ChunksAttendAsDocumentsOfTheirOwn) {
  FlopSizes sizes = llama3_8b();
  const auto attention = [&](int64_t length) {
    return training_flops(sizes, 1, length).attention_part;
  };
  const double chunk = attention(1024), rest = attention(100), whole = attention(2148);
  sizes.chunks.assign(32, 1024);
  EXPECT_EQ(attention(2148), 2 * chunk + rest);
  EXPECT_EQ(attention(1024), chunk);
  for (size_t layer = 0; layer < 32; layer += 2) sizes.chunks[layer] = 0;
  EXPECT_EQ(attention(2148), (2 * chunk + rest) / 2 + whole / 2);
}

TEST(Flops, PackedDocumentsAttendWithinThemselves) {
  const std::array<int64_t, 3> lengths{100, 300, 624};
  const FlopCount packed = training_flops(gpt2_124m(), lengths);
  EXPECT_EQ(packed.token_part, training_flops(gpt2_124m(), 1, 1024).token_part);
  EXPECT_EQ(packed.attention_part, 6.0 * 768 * 12 * (100 * 100 + 300 * 300 + 624 * 624));
}

TEST(Flops, HeadSizeNeedNotBeHiddenOverHeads) {
  FlopSizes sizes = gpt2_124m();
  sizes.head_dim = 128;  // q = 1536
  EXPECT_EQ(matmul_parameters(sizes), 123532032.0 + 12.0 * 4 * 768 * 768);
  EXPECT_EQ(training_flops(sizes, 1, 1024).attention_part, 2 * 56623104.0 * 1024);
}

TEST(Flops, SizesComeFromTheModel) {
  ModelConfig config;
  config.layers = 32, config.hidden = 4096, config.feed_forward = 14336;
  config.heads = 32, config.kv_heads = 8, config.head_dim = 128, config.vocabulary = 128256;
  config.gated = true;
  EXPECT_EQ(matmul_parameters(flop_sizes(config)), matmul_parameters(llama3_8b()));
  config.windows.assign(32, 4096);
  EXPECT_EQ(training_flops(flop_sizes(config), 1, 8192).attention_part,
            12.0 * 4096 * 32 * 25165824);
  config.gated = false;
  EXPECT_LT(matmul_parameters(flop_sizes(config)), matmul_parameters(llama3_8b()));
}

TEST(Flops, Rates) {
  EXPECT_DOUBLE_EQ(tflops_per_rank(8e12, 2.0, 4), 1.0);
  EXPECT_THROW(tflops_per_rank(1, 0, 1), ShapeError);
}

TEST(Flops, RefusesImpossibleSizes) {
  FlopSizes sizes = gpt2_124m();
  sizes.key_value_heads = 5;
  EXPECT_THROW(matmul_parameters(sizes), ShapeError);
  sizes = gpt2_124m();
  sizes.sliding_windows = {1, 2};
  EXPECT_THROW(training_flops(sizes, 1, 1), ShapeError);
  EXPECT_THROW(training_flops(gpt2_124m(), -1, 1), ShapeError);
  EXPECT_THROW(matmul_parameters({}), ShapeError);
}

}  // namespace
}  // namespace viaduct
