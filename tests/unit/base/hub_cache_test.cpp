// Models by their names on the Hub: where the local cache has them, and what is said where not.

#include "base/hub_cache.h"

#include <gmock/gmock.h>

#include <cstdlib>

#include "base/error.h"
#include "base/file.h"
#include "base/given_path.h"
#include "support/temporary_folder.h"

namespace viaduct {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::ThrowsMessage;

constexpr const char *kOld = "0123456789abcdef0123456789abcdef01234567",
                     *kNew = "89abcdef0123456789abcdef0123456789abcdef";

/// A cache as huggingface_hub leaves it, in HF_HUB_CACHE.
class HubCache : public testing::Test {
 protected:
  HubCache() {
    ::setenv("HF_HUB_CACHE", cache_.path().c_str(), 1);
    for (const char* commit : {kOld, kNew}) {
      const fs::path snapshot = repository() / "snapshots" / commit;
      fs::create_directories(snapshot);
      add(snapshot, "config.json", commit);
    }
    refer("main", kNew);
  }
  ~HubCache() override {
    for (const char* name : {"HF_HUB_CACHE", "HF_HOME", "HUGGINGFACE_HUB_CACHE"}) ::unsetenv(name);
  }
  fs::path repository() const { return cache_ / "models--Qwen--Qwen3-0.6B"; }
  void add(const fs::path& snapshot, const std::string& name, const std::string& text) const {
    const fs::path blob = repository() / "blobs" / (std::string("b") + text);
    fs::create_directories(blob.parent_path());
    write_file_atomically(blob, text);
    fs::create_symlink(fs::path("../../blobs") / blob.filename(), snapshot / name);
  }
  void refer(const std::string& revision, const std::string& commit) const {
    fs::create_directories((repository() / "refs" / revision).parent_path());
    write_file_atomically(repository() / "refs" / revision, commit);
  }
  fs::path snapshot(const char* commit) const { return repository() / "snapshots" / commit; }

  test::TemporaryFolder cache_;
};

TEST(HubName, Parts) {
  const auto plain = parse_hub_name("Qwen/Qwen3-0.6B");
  ASSERT_TRUE(plain);
  EXPECT_EQ(plain->repository, "Qwen/Qwen3-0.6B");
  EXPECT_EQ(plain->revision, "main");
  EXPECT_EQ(plain->download_command(), "hf download Qwen/Qwen3-0.6B");
  const auto other = parse_hub_name("org/name@refs/pr/1");
  ASSERT_TRUE(other);
  EXPECT_EQ(other->revision, "refs/pr/1");
  EXPECT_EQ(other->download_command(), "hf download org/name --revision refs/pr/1");
  EXPECT_EQ(parse_hub_name("gpt2")->repository, "gpt2");
  const auto file = parse_hub_name("org/name/model-q8_0.gguf");
  ASSERT_TRUE(file);
  EXPECT_EQ(file->repository, "org/name");
  EXPECT_EQ(file->download_command(), "hf download org/name model-q8_0.gguf");
  for (const char* text :
       {"/org/name", "./name", "../name", "a/b/c", "a//b", "org/na--me", "a..b/c", "org/name@",
        "org/name@../x", "-a/b", "a b/c", "", ".hidden/x"})
    EXPECT_FALSE(parse_hub_name(text)) << text;
}

TEST_F(HubCache, TheSnapshotThatMainNames) {
  EXPECT_EQ(find_model("Qwen/Qwen3-0.6B"), snapshot(kNew));
  EXPECT_EQ(read_file(*find_model("Qwen/Qwen3-0.6B") / "config.json"), kNew);  // through the link
  EXPECT_EQ(find_model(std::string("Qwen/Qwen3-0.6B@") + kOld), snapshot(kOld));
  refer("v1.0", kOld);
  refer("refs/pr/7", std::string(kOld) + "\n");
  EXPECT_EQ(find_model("Qwen/Qwen3-0.6B@v1.0"), snapshot(kOld));
  EXPECT_EQ(find_model("Qwen/Qwen3-0.6B@refs/pr/7"), snapshot(kOld));
  EXPECT_EQ(hub_repository(snapshot(kNew)), "Qwen/Qwen3-0.6B");
  EXPECT_EQ(hub_repository(snapshot(kNew) / "x.gguf"), "Qwen/Qwen3-0.6B");
  EXPECT_EQ(hub_repository("models/snapshots/x"), "");
  EXPECT_THAT(complete_snapshot_text(snapshot(kNew)), HasSubstr("hf download Qwen/Qwen3-0.6B"));
}

TEST_F(HubCache, AFileOfASnapshot) {
  EXPECT_EQ(find_model("Qwen/Qwen3-0.6B/q8.gguf"), std::nullopt);
  add(snapshot(kNew), "q8.gguf", "weights");
  EXPECT_EQ(find_model("Qwen/Qwen3-0.6B/q8.gguf"), snapshot(kNew) / "q8.gguf");
}

TEST_F(HubCache, PlacesOfTheCache) {
  ::unsetenv("HF_HUB_CACHE");
  ::setenv("HF_HOME", "/homes/hf", 1);
  EXPECT_EQ(hub_cache(), fs::path("/homes/hf/hub"));
  ::setenv("HUGGINGFACE_HUB_CACHE", "/old", 1);
  EXPECT_EQ(hub_cache(), fs::path("/old"));
  const char* given = std::getenv("HOME");
  const std::string home = given == nullptr ? "" : given;
  ::setenv("HOME", "/homes/me", 1);
  ::setenv("HF_HUB_CACHE", "~/cache", 1);
  EXPECT_EQ(hub_cache(), fs::path("/homes/me/cache"));
  ::setenv("HOME", home.c_str(), 1);
}

TEST_F(HubCache, APathOfThatNameComesFirst) {
  test::TemporaryFolder here;
  fs::create_directories(here / "Qwen/Qwen3-0.6B");
  const fs::path before = fs::current_path();
  fs::current_path(here.path());
  const auto found = find_model("Qwen/Qwen3-0.6B");
  fs::current_path(before);
  EXPECT_EQ(found, fs::path("Qwen/Qwen3-0.6B"));
}

TEST_F(HubCache, WhatIsMissingIsSaidWithTheCommand) {
  const auto expect = [](const char* name, const auto& text) {
    EXPECT_THAT([&] { model_path("--from ", name, "a model"); }, ThrowsMessage<MissingPath>(text));
  };
  expect("Qwen/Qwen3-8B",
         AllOf(HasSubstr("--from Qwen/Qwen3-8B: no such file or folder; expected a model"),
               HasSubstr(cache_.path().string()), HasSubstr("hf download Qwen/Qwen3-8B")));
  expect("Qwen/Qwen3-0.6B@v2", AllOf(HasSubstr("has no revision v2"), HasSubstr(kOld),
                                     HasSubstr("hf download Qwen/Qwen3-0.6B --revision v2")));
  fs::remove_all(snapshot(kNew));
  expect("Qwen/Qwen3-0.6B", AllOf(HasSubstr("refs/main is at"), HasSubstr("is not there")));
  fs::remove(repository() / "refs/main");
  expect("Qwen/Qwen3-0.6B", HasSubstr("has no revision main (snapshots there: 0123"));
  // A mistake in a path is no name of the Hub.
  expect("nothing", Not(HasSubstr("hf download")));
  expect("/no/such", Not(HasSubstr("hf download")));
  refer("main", "../../elsewhere");
  EXPECT_THROW(find_model("Qwen/Qwen3-0.6B"), IoError);
}

}  // namespace
}  // namespace viaduct
