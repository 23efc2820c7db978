// Threads with stacks of the project's size.

#include "base/thread.h"

#include <gtest/gtest.h>

namespace viaduct {
namespace {

TEST(Thread, HasTheStackThatWeSay) {
  size_t bytes = 0;
  {
    const Thread thread([&] {
      pthread_attr_t attributes;
      void* address = nullptr;
      pthread_getattr_np(pthread_self(), &attributes);
      pthread_attr_getstack(&attributes, &address, &bytes);
      pthread_attr_destroy(&attributes);
    });
  }
  EXPECT_GE(bytes, kThreadStackBytes);
}

TEST(Thread, MovesAndJoins) {
  int ran = 0;
  Thread thread;
  EXPECT_FALSE(thread.joinable());
  thread = Thread([&] { ran = 1; });
  EXPECT_TRUE(thread.joinable());
  thread.join();
  EXPECT_FALSE(thread.joinable());
  EXPECT_EQ(ran, 1);
}

}  // namespace
}  // namespace viaduct
