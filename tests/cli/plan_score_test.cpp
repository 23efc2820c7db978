// viaduct plan --score: its document, its table, and its refusals.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "base/json.h"
#include "support/command.h"
#include "support/temporary_folder.h"

namespace viaduct {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;

const std::string kTable =
    "id,hardware,n_gpus,model,precision,global_batch,micro_batch,seq_len,tp,pp,"
    "tokens_per_sec_per_gpu,notes\n"
    "first,H100-SXM,8,mpt-125m,bf16,64,8,2048,1,1,300000,\"quoted, with a comma\"\n"
    "second,H100-SXM,8,mpt-1b,bf16,64,8,2048,1,1,40000,\n"
    "third,H100-SXM,8,mpt-2b,bf16,64,8,2048,1,1,40000,\n";

class PlanScore : public testing::Test {
 protected:
  std::string file(const std::string& name, const std::string& text) {
    const auto path = folder_.path() / name;
    std::ofstream(path) << text;
    return path.string();
  }
  test::TemporaryFolder folder_;
};

TEST_F(PlanScore, TheDocumentHasEveryRowOnce) {
  const auto run = test::run_viaduct("plan --json --score " + file("t.csv", kTable));
  ASSERT_EQ(run.status, 0) << run.err;
  const json document = json::parse(run.out);
  ASSERT_EQ(document["rows"].size(), 2u);
  ASSERT_EQ(document["unsupported"].size(), 1u);
  EXPECT_EQ(document["unsupported"][0]["id"], "third");
  double sum = 0, bias = 0;
  for (const json& row : document["rows"]) {
    const double predicted = row["predicted"], published = row["published"];
    EXPECT_NEAR(row["error"], predicted / published - 1, 1e-12);
    EXPECT_TRUE(row.contains("note"));
    sum += std::abs(predicted / published - 1), bias += predicted / published - 1;
  }
  EXPECT_NEAR(document["mape"], sum / 2, 1e-12);
  EXPECT_NEAR(document["median"], sum / 2, 1e-12);
  EXPECT_NEAR(document["bias"], bias / 2, 1e-12);
  EXPECT_GE(document["p90"], document["mape"]);
}

TEST_F(PlanScore, TheTableNamesWhatIsNotPredicted) {
  const auto run = test::run_viaduct("plan --score " + file("t.csv", kTable) + " --constants " +
                                     file("c.yaml", "step_share: {h100-sxm: 0.9}\n"));
  ASSERT_EQ(run.status, 0) << run.err;
  EXPECT_THAT(run.out,
              AllOf(HasSubstr("first"), HasSubstr("2 rows: mean error"),
                    HasSubstr("not predicted, 1 row:"), HasSubstr("unknown model mpt-2b")));
}

TEST_F(PlanScore, WrongFilesAndOptionsAreRefused) {
  const auto refused = [](const std::string& options, const char* text) {
    const auto run = test::run_viaduct("plan " + options);
    EXPECT_EQ(run.status, 2) << options << run.out;
    EXPECT_THAT(run.err, HasSubstr(text));
  };
  const std::string table = file("t.csv", kTable);
  refused("--score " + file("short.csv", "id,model\nx\n"), "expected 2 cells");
  refused("--score " + file("other.csv", "id,model\nx,y\n"), "hardware");
  refused("--score " + file("empty.csv", ""), "found nothing");
  refused("--score " + table + " --constants " + file("c.yaml", "step_share: {h100: 0.9}"),
          "unknown GPU h100");
  refused("--score " + table + " --cluster dgx-h100", "--cluster with --score has no effect");
  refused("--constants c.yaml --cluster dgx-h100 dist.ranks=1", "without --score has no effect");
  refused("--model llama3-8b --ranks 8 --global-batch 8", "--cluster is required");
}

}  // namespace
}  // namespace viaduct
