#include "base/worker_pool.h"

#include <atomic>
#include <future>

#include "gtest/gtest.h"

namespace deform::base {
namespace {

TEST(WorkerPoolTest, OneThreadRunsTasksInTheOrderTheyCame) {
  std::vector<int> order;
  {
    WorkerPool pool(1);
    for (int i = 0; i < 100; ++i) pool.Post([&order, i] { order.push_back(i); });
  }
  ASSERT_EQ(order.size(), 100u);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(order[i], i);
}

TEST(WorkerPoolTest, AllThreadsWorkAtOnce) {
  WorkerPool pool(3);
  // Each task waits for the other two: with fewer threads none would ever end.
  std::atomic<int> arrived{0};
  std::promise<void> all_arrived;
  std::shared_future<void> gate = all_arrived.get_future().share();
  std::vector<std::future<void>> ended;
  for (int i = 0; i < 3; ++i) {
    auto end = std::make_shared<std::promise<void>>();
    ended.push_back(end->get_future());
    pool.Post([&, gate, end] {
      if (arrived.fetch_add(1) == 2) all_arrived.set_value();
      gate.wait();
      end->set_value();
    });
  }
  for (auto& end : ended) end.wait();
  EXPECT_EQ(arrived, 3);
}

TEST(WorkerPoolTest, TheDestructorRunsWhatTasksPostedMeanwhile) {
  std::atomic<int> ran{0};
  {
    WorkerPool pool(2);
    for (int i = 0; i < 10; ++i) {
      pool.Post([&] {
        ++ran;
        pool.Post([&] { ++ran; });
      });
    }
  }
  EXPECT_EQ(ran, 20);
}

TEST(WorkerPoolTest, WhatATaskHoldsIsReleasedOnceItRan) {
  WorkerPool pool(1);
  auto held = std::make_shared<int>(1);
  const std::weak_ptr<int> watched = held;
  pool.Post([held = std::move(held)] {});
  std::promise<bool> expired;
  pool.Post([&] { expired.set_value(watched.expired()); });
  EXPECT_TRUE(expired.get_future().get());
}

}  // namespace
}  // namespace deform::base
