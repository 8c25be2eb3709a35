// The only thread loop: workers take tasks from a shared cursor. Which worker takes a task never changes its result.
#pragma once
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <exception>
#include <thread>
#include <vector>

namespace halfstep {

// body(worker, task) for every task; worker numbers run from 0 to n_threads - 1. Rethrows the first exception.
template <class Body>
void parallel(int n_threads, int64_t n_tasks, Body body) {
  n_threads = int(std::max<int64_t>(1, std::min<int64_t>(n_threads, n_tasks)));
  std::atomic<int64_t> cursor{0};
  std::atomic<bool> stop{false};
  std::vector<std::exception_ptr> errors(n_threads);
  auto work = [&](int worker) {
    try {
      for (int64_t task; !stop && (task = cursor.fetch_add(1)) < n_tasks;) body(worker, task);
    } catch (...) {
      errors[worker] = std::current_exception();
      stop = true;
    }
  };
  std::vector<std::thread> threads;
  threads.reserve(n_threads - 1);
  try {
    for (int t = 1; t < n_threads; ++t) threads.emplace_back(work, t);
  } catch (const std::exception&) {
    // A thread that the system does not grant: those there are do its work, and no result changes.
  }
  work(0);
  for (auto& thread : threads) thread.join();
  for (auto& error : errors)
    if (error) std::rethrow_exception(error);
}

}  // namespace halfstep
