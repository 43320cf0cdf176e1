#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace deform::base {

// A fixed number of threads that run tasks in the order they came. Thread-safe.
class WorkerPool {
 public:
  // REQUIRES: threads >= 1.
  explicit WorkerPool(int threads);

  // Runs every task already posted, then joins.
  ~WorkerPool();

  // REQUIRES: the destructor has not begun, or the caller is a task of this pool.
  void Post(std::function<void()> task);

 private:
  void RunTasks();

  std::mutex mutex_;
  std::condition_variable has_task_;
  std::deque<std::function<void()>> tasks_;
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace deform::base
