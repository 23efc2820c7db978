// Rules over pipeline stages: layer maps, schedules and messages.

#include "support/validated_run.h"

namespace viaduct {
namespace {

using namespace test;
using testing::ElementsAre;
using testing::HasSubstr;

TEST(ValidateParallel, StagesHaveEqualLayers) {
  EXPECT_ONE(
      "8 is not divisible by pipeline_model_parallel_size · "
      "virtual_pipeline_model_parallel_size = 3 · 1; nearest: 6 or 9",
      pp(3), ranks(3), "train.global_batch_size=3");
  EXPECT_ONE("= 4 · 3; nearest: 12", pp(4), vpp(3));
  EXPECT_ONE("virtual_pipeline_model_parallel_size: 2 needs pipeline_model_parallel_size", vpp(2));
  EXPECT_ONE(
      "pipeline_model_parallel_layout: 2 stages for pipeline_model_parallel_size = 1, and several "
      "on "
      "a rank need at least 2; nearest: 1 stage, or 2 ranks",
      "model.pipeline_model_parallel_layout=Et*4|t*4L");
}

TEST(ValidateParallel, EmbeddingAndLossCountAsLayers) {
  const std::string embedding = "model.account_for_embedding_in_pipeline_split=true",
                    loss = "model.account_for_loss_in_pipeline_split=true";
  EXPECT_GOOD(pp(2), embedding, loss);
  EXPECT_GOOD(pp(4), "model.num_layers=7", embedding);
  EXPECT_ONE("8 + 1 (embedding) is not divisible", pp(2), embedding);
  EXPECT_ONE(
      "8 + 2 (embedding and loss) is not divisible by pipeline_model_parallel_size · "
      "virtual_pipeline_model_parallel_size = 4 · 1; nearest: 6 or 10",
      pp(4), embedding, loss);
  EXPECT_ONE("not together with", pp(2), loss, "model.num_layers_in_first_pipeline_stage=4");
}

TEST(ValidateParallel, ExplicitEnds) {
  const std::string first = "model.num_layers_in_first_pipeline_stage=",
                    last = "model.num_layers_in_last_pipeline_stage=";
  EXPECT_GOOD(pp(4), first + "3", last + "1");
  EXPECT_GOOD(pp(2), first + "3", last + "5");
  EXPECT_GOOD(pp(4), first + "2", vpp(2));
  EXPECT_ONE("8 - 2 layers of num_layers_in_first/last_pipeline_stage = 6 for the other 4 stages",
             pp(5), ranks(5), first + "2", "train.global_batch_size=5");
  EXPECT_ONE("first and last stage are the only ones and have 3 + 4 = 7", pp(2), first + "3",
             last + "4");
  EXPECT_THAT(validated({pp(4), first + "3", last + "1", vpp(2)}).problems,
              ElementsAre(HasSubstr("first_pipeline_stage: 3 is not divisible by "
                                    "virtual_pipeline_model_parallel_size = 2; nearest: 2 or 4"),
                          HasSubstr("last_pipeline_stage: 1 is not divisible")));
  EXPECT_ONE("needs pipeline_model_parallel_size of at least 2", first + "8");
}

TEST(ValidateParallel, LayoutText) {
  const std::string text = "model.pipeline_model_parallel_layout=";
  EXPECT_GOOD(pp(2), text + "Et*3|t*5,L");
  EXPECT_GOOD(pp(2), text + "'E(t|t)*2t|(tt)*2L'", "model.num_layers=9") << "two chunks a stage";
  EXPECT_ONE("7 transformer layers (t), and model.num_layers = 8", pp(2), text + "Et*3|t*4,L");
  EXPECT_ONE("3 stages are not divisible by pipeline_model_parallel_size = 2; nearest: 2 or 4",
             pp(2), text + "Et*3|t*4|tL");
  EXPECT_ONE("expected one E, as the first letter; found letter 5 of 11", pp(2),
             text + "t*4E|t*4L");
  EXPECT_ONE("expected one E, as the first letter; found 2, the first is letter 1 of 12", pp(2),
             text + "Et*4|Et*4L");
  EXPECT_ONE("expected one L, as the last letter; found none", pp(2), text + "Et*4|t*4");
  EXPECT_ONE("1 layer of multi-token prediction (m), and model.mtp_num_layers = null", pp(2),
             text + "Et*4|t*4mL", "model.mtp_num_layers=null");
  EXPECT_ONE("0 layers of multi-token prediction (m), and model.mtp_num_layers = 2", pp(2),
             text + "Et*4|t*4L", "model.mtp_num_layers=2");
  EXPECT_GOOD(pp(2), text + "Et*4|t*4mmL", "model.mtp_num_layers=2");
  EXPECT_ONE("m: layers of multi-token prediction are right before L", pp(2), text + "Et*4m|t*4mL",
             "model.mtp_num_layers=2");
  EXPECT_ONE("at character 3 of 'Etx'", pp(2), text + "Etx");
  EXPECT_ONE(
      "virtual_pipeline_model_parallel_size: 2, but pipeline_model_parallel_layout has 2 stages "
      "over 2 ranks = 1",
      pp(2), vpp(2), text + "Et*3|t*5L");
  EXPECT_ONE("excludes num_layers_in_first", pp(2), text + "Et*3|t*5L",
             "model.num_layers_in_first_pipeline_stage=3");
}

TEST(ValidateParallel, MultiTokenPrediction) {
  EXPECT_GOOD(pp(2), "model.mtp_num_layers=2");
  EXPECT_ONE(
      "mtp_num_layers: family gpt2 has no names for such layers; families with them: apertus, "
      "arcee",
      "model.family=gpt2", "model.mtp_num_layers=1");
  EXPECT_ONE("mtp_num_layers: 64 with rows of seq_length = 64 tokens", "model.mtp_num_layers=64");
}

TEST(ValidateParallel, GroupsOfMicroBatches) {
  const std::string group = "model.microbatch_group_size_per_vp_stage=";
  EXPECT_GOOD(pp(4), vpp(2), group + "8");
  EXPECT_GOOD(pp(4), vpp(2), group + "12") << "16 = 12 + 4";
  EXPECT_ONE("needs virtual stages", pp(4), group + "4");
  EXPECT_ONE("2 is below pipeline_model_parallel_size = 4; nearest: 4", pp(4), vpp(2), group + "2");
  EXPECT_ONE(
      "groups of 7 cut the 16 micro-batches of a step and leave 2, fewer than "
      "pipeline_model_parallel_size = 4; nearest: 14 or 18 micro-batches",
      pp(4), vpp(2), group + "7");
  EXPECT_ONE("groups of 4 cut the 2 micro-batches", pp(4), vpp(2), "train.global_batch_size=4");
  EXPECT_GOOD(pp(4), "train.global_batch_size=4") << "fewer micro-batches than stages";
}

TEST(ValidateParallel, SchedulesAndMessages) {
  EXPECT_GOOD(pp(2), "model.pipeline_schedule=zero_bubble");
  EXPECT_ONE("gpipe has one chunk a stage", pp(2), vpp(2), "model.pipeline_schedule=gpipe");
  EXPECT_ONE("exclude each other", pp(2), vpp(2), "comm_overlap.overlap_p2p_comm=true",
             "comm_overlap.batch_p2p_comm=true");
  EXPECT_ONE("overlap_p2p_comm_warmup_flush: true needs", pp(2),
             "model.overlap_p2p_comm_warmup_flush=true");
  EXPECT_GOOD(pp(2), vpp(2), "model.overlap_p2p_comm_warmup_flush=true");
  EXPECT_ONE("pipeline_schedule = zero_bubble: its messages would", pp(2),
             "model.pipeline_schedule=zero_bubble", "model.batch_p2p_comm=false");
  EXPECT_THAT(validated({"comm_overlap.defer_embedding_wgrad_compute=true"}).problems,
              ElementsAre(HasSubstr("needs pipeline_model_parallel_size of at least 2"),
                          HasSubstr("wgrad_deferral_limit: -1")));
  const std::string defer = "comm_overlap.defer_embedding_wgrad_compute=true",
                    all = "comm_overlap.wgrad_deferral_limit=0";
  EXPECT_GOOD(pp(2), defer, all);
  EXPECT_GOOD(pp(2), vpp(2), defer, "comm_overlap.wgrad_deferral_limit=3");
  EXPECT_GOOD(pp(2), defer, all, "model.pipeline_schedule=gpipe");
  EXPECT_ONE("zero_bubble delays all weight gradients already", pp(2), defer, all,
             "model.pipeline_schedule=zero_bubble");
  EXPECT_ONE("wgrad_deferral_limit: 2 needs defer_embedding_wgrad_compute, which is off", pp(2),
             "comm_overlap.wgrad_deferral_limit=2");
}

TEST(ValidateParallel, DualPipeV) {
  const std::string v = "model.pipeline_schedule=dualpipe_v";
  EXPECT_GOOD(pp(2), vpp(2), v);
  EXPECT_ONE("dualpipe holds the parameters of two stages on each rank", pp(2), vpp(2),
             "model.pipeline_schedule=dualpipe");
  EXPECT_ONE("virtual_pipeline_model_parallel_size = 2, found 2 and 1", pp(2), v);
  EXPECT_ONE("needs comm_overlap.overlap_p2p_comm = true", pp(2), vpp(2), v,
             "comm_overlap.overlap_p2p_comm=false");
  EXPECT_GOOD(pp(2), vpp(2), v, "model.share_embeddings_and_output_weights=true");
  EXPECT_ONE("has no groups, and microbatch_group_size_per_vp_stage is 4", pp(2), vpp(2), v,
             "model.microbatch_group_size_per_vp_stage=4");
}

}  // namespace
}  // namespace viaduct
