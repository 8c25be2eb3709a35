// A half-step from rows to tasks: cut by counted work, long rows and blocks of a table by chunks, sums in task
// order.
#pragma once
#include <algorithm>
#include <memory>
#include <numeric>
#include <vector>

#include "kernels.hpp"
#include "parallel.hpp"

namespace halfstep {

struct Task {
  int64_t row0, row1;
  int64_t k0, k1;  // cells of these rows; all of them where cut < 0
  int64_t cut;     // which of the rows that several tasks share, or -1
  int64_t part;    // which of its parts
};

// Rows whose cells several tasks share: one long row, or a block of a table.
template <class T>
struct Cut {
  std::vector<std::unique_ptr<T[]>> parts;
  std::atomic<int> missing{0};
};

template <class T>
struct Plan {
  std::vector<Task> tasks;  // those that share rows first
  std::vector<std::unique_ptr<Cut<T>>> cuts;

  // Tasks for the cells k0..k1 of these rows, chunk by chunk.
  void cut(int64_t row0, int64_t row1, int64_t k0, int64_t k1, int64_t chunk) {
    int64_t part = 0;
    for (int64_t k = k0; k < k1; k += chunk)
      tasks.push_back({row0, row1, k, std::min(k + chunk, k1), int64_t(cuts.size()), part++});
    cuts.push_back(std::make_unique<Cut<T>>());
    cuts.back()->parts.resize(part);
    cuts.back()->missing = int(part);
  }
};

// Tasks do not depend on the number of threads, so neither do the sums nor the order of any addition.
template <class T>
Plan<T> plan_rows(const HalfStep<T>& h) {
  const bool split_long = h.is_quadratic();
  const double f = h.free();
  auto work = [&](int64_t i) {
    const double n = double(h.indptr[i + 1] - h.indptr[i]);
    return n < f ? n * n * f + 8 * n * f + 64 : n * f * f + f * f * f / 3 + 64;
  };
  double total = 0;
  for (int64_t i = 0; i < h.n_own; ++i) total += work(i);
  const double share = total / 256;
  Plan<T> plan;
  std::vector<Task> rest;
  int64_t first = 0;
  double sum = 0;
  auto end_task = [&](int64_t end) {
    if (end > first) rest.push_back({first, end, 0, 0, -1, 0});
    first = end, sum = 0;
  };
  for (int64_t i = 0; i < h.n_own; ++i) {
    const int64_t k0 = h.indptr[i], k1 = h.indptr[i + 1];
    if (split_long && k1 - k0 > long_row) {
      end_task(i);
      plan.cut(i, i + 1, k0, k1, chunk_cells);
      first = i + 1;
      continue;
    }
    if ((sum += work(i)) >= share) end_task(i + 1);
  }
  end_task(h.n_own);
  plan.tasks.insert(plan.tasks.end(), rest.begin(), rest.end());
  return plan;
}

template <class T>
Plan<T> plan_table(const HalfStep<T>& h) {
  const int64_t rows = block_rows(h), blocks = (h.n_own + rows - 1) / rows;
  const int64_t wanted = (table_tasks + blocks - 1) / std::max<int64_t>(blocks, 1);
  const int64_t chunk = std::max(table_chunk, (h.n_other + wanted - 1) / wanted);
  Plan<T> plan;
  for (int64_t i = 0; i < h.n_own; i += rows)
    if (chunk < h.n_other)
      plan.cut(i, std::min(i + rows, h.n_own), 0, h.n_other, chunk);
    else
      plan.tasks.push_back({i, std::min(i + rows, h.n_own), 0, h.n_other, -1, 0});
  return plan;
}

template <class T>
struct Workers {
  const Kernels<T>& kernels;
  const HalfStep<T>& h;
  std::vector<void*> scratch;
  Workers(const Kernels<T>& k, const HalfStep<T>& h, int n) : kernels(k), h(h), scratch(std::max(n, 1), nullptr) {}
  void* operator[](int worker) {
    if (!scratch[worker]) scratch[worker] = kernels.open(h);
    return scratch[worker];
  }
  ~Workers() {
    for (void* s : scratch)
      if (s) kernels.close(s);
  }
};

template <class T>
int64_t longest_row(const HalfStep<T>& h) {
  if (h.is_table()) return h.n_other;
  int64_t longest = 0;
  for (int64_t i = 0; i < h.n_own; ++i) longest = std::max(longest, h.indptr[i + 1] - h.indptr[i]);
  return longest;
}

// Solves every row of the own side. With `evaluate`, the sums hold what the new rows cost on their cells.
template <class T>
Sums half_step(const Kernels<T>& kernels, HalfStep<T> h, bool evaluate, int n_threads) {
  h.longest = longest_row(h);
  std::vector<int32_t> every;  // cells of a row of a table
  if (h.is_table()) {
    every.resize(size_t(h.n_other));
    std::iota(every.begin(), every.end(), 0);
    h.indices = every.data();
  }
  const Plan<T> plan = h.is_table() ? plan_table(h) : plan_rows(h);
  const std::vector<Task>& tasks = plan.tasks;
  std::vector<Sums> sums(tasks.size() + 1);
  Workers<T> workers(kernels, h, n_threads);
  parallel(n_threads, int64_t(tasks.size()), [&](int worker, int64_t number) {
    const Task& task = tasks[number];
    if (task.cut < 0) {
      kernels.rows(h, task.row0, task.row1, evaluate, workers[worker], sums[number]);
      return;
    }
    Cut<T>& shared = *plan.cuts[task.cut];
    shared.parts[task.part].reset(new T[kernels.part_size(h, task.row1 - task.row0)]);
    kernels.part(h, task.row0, task.row1, task.k0, task.k1, workers[worker], shared.parts[task.part].get());
    if (shared.missing.fetch_sub(1) > 1) return;
    std::vector<T*> parts;
    for (auto& p : shared.parts) parts.push_back(p.get());
    kernels.finish(h, task.row0, task.row1, parts.data(), int(parts.size()), workers[worker], sums[number]);
    shared.parts.clear();
  });
  // Who finishes shared rows depends on timing; their sums go to one place in row order.
  const size_t n_chunks =
      tasks.size() - size_t(std::count_if(tasks.begin(), tasks.end(), [](const Task& t) { return t.cut < 0; }));
  std::vector<Sums> by_cut(plan.cuts.size());
  for (size_t number = 0; number < n_chunks; ++number) by_cut[tasks[number].cut].add(sums[number]);
  if (evaluate)
    parallel(n_threads, int64_t(n_chunks), [&](int worker, int64_t number) {
      const Task& task = tasks[number];
      sums[number] = Sums();
      kernels.evaluate(h, task.row0, task.row1, task.k0, task.k1, workers[worker], sums[number]);
    });
  Sums total;
  for (const Sums& s : by_cut) total.add(s);
  for (size_t number = evaluate ? 0 : n_chunks; number < tasks.size(); ++number) total.add(sums[number]);
  return total;
}

// What the cells of each row add to its quadratic, (n_own, f + 1, f) in `out`: the lower triangle of sum (w - w0) x x',
// then the linear terms. Squared loss. Pieces of a row that live apart are added up by the caller.
template <class T>
void quadratics(const Kernels<T>& kernels, HalfStep<T> h, double* out, int n_threads) {
  h.longest = longest_row(h);
  Plan<T> plan;
  if (h.is_table())
    plan = plan_table(h);
  else
    for (int64_t i = 0; i < h.n_own; ++i) plan.cut(i, i + 1, h.indptr[i], h.indptr[i + 1], chunk_cells);
  Workers<T> workers(kernels, h, n_threads);
  const size_t size = size_t(h.free() + 1) * h.free();
  std::fill(out, out + h.n_own * size, 0.0);
  parallel(n_threads, int64_t(plan.tasks.size()), [&](int worker, int64_t number) {
    const Task& task = plan.tasks[number];
    const int64_t rows = task.row1 - task.row0;
    std::unique_ptr<T[]> part(new T[kernels.part_size(h, rows)]);
    kernels.part(h, task.row0, task.row1, task.k0, task.k1, workers[worker], part.get());
    if (task.cut < 0) return kernels.add_part(h, rows, part.get(), workers[worker], out + task.row0 * size);
    Cut<T>& shared = *plan.cuts[task.cut];
    shared.parts[task.part] = std::move(part);
    if (shared.missing.fetch_sub(1) > 1) return;
    for (auto& p : shared.parts) kernels.add_part(h, rows, p.get(), workers[worker], out + task.row0 * size);
    shared.parts.clear();
  });
}

// Solves every row of the own side from such quadratics, added up. No cell is looked at.
template <class T>
Sums finish(const Kernels<T>& kernels, HalfStep<T> h, const double* quadratics, int n_threads) {
  constexpr int64_t share = 16;
  static const int64_t nothing[] = {0};
  h.indptr = nothing, h.longest = 0;
  Workers<T> workers(kernels, h, n_threads);
  std::vector<Sums> sums((h.n_own + share - 1) / share);
  parallel(n_threads, int64_t(sums.size()), [&](int worker, int64_t number) {
    const int64_t first = number * share;
    kernels.finish_whole(h, first, std::min(first + share, h.n_own), quadratics, workers[worker], sums[number]);
  });
  Sums total;
  for (const Sums& s : sums) total.add(s);
  return total;
}

// What the present rows cost on their cells; solves nothing.
template <class T>
Sums evaluate(const Kernels<T>& kernels, HalfStep<T> h, int n_threads) {
  std::vector<Task> tasks;
  if (h.is_table())
    tasks = plan_table(h).tasks;
  else
    for (int64_t i = 0; i < h.n_own; ++i)
      for (int64_t k = h.indptr[i]; k < h.indptr[i + 1]; k += chunk_cells)
        if (!tasks.empty() && tasks.back().k1 + h.indptr[i + 1] - k < tasks.back().k0 + chunk_cells)
          tasks.back().row1 = i + 1, tasks.back().k1 = h.indptr[i + 1];
        else
          tasks.push_back({i, i + 1, k, std::min(k + chunk_cells, h.indptr[i + 1]), -1, 0});
  Workers<T> workers(kernels, h, n_threads);
  std::vector<Sums> sums(tasks.size());
  parallel(n_threads, int64_t(tasks.size()), [&](int worker, int64_t number) {
    const Task& task = tasks[number];
    void* scratch = h.is_table() ? workers[worker] : nullptr;  // cells of ordinary rows need none
    kernels.evaluate(h, task.row0, task.row1, task.k0, task.k1, scratch, sums[number]);
  });
  Sums total;
  for (const Sums& s : sums) total.add(s);
  return total;
}

// x'x in float64; fixed shares of rows, added in order.
template <class T>
void gram(const Kernels<T>& kernels, const T* x, int64_t n, int d, double* out, int n_threads) {
  const int64_t share = std::max<int64_t>(16384, (n + 63) / 64), count = (n + share - 1) / share;
  std::vector<std::vector<double>> parts(count, std::vector<double>(size_t(d) * d, 0.0));
  parallel(n_threads, count, [&](int, int64_t task) {
    const int64_t first = task * share;
    kernels.gram(x + first * d, std::min(share, n - first), d, parts[task].data());
  });
  std::fill(out, out + size_t(d) * d, 0.0);
  for (const auto& part : parts)
    for (size_t k = 0; k < part.size(); ++k) out[k] += part[k];
  for (int r = 0; r < d; ++r)
    for (int c = r + 1; c < d; ++c) out[size_t(r) * d + c] = out[size_t(c) * d + r];
}

}  // namespace halfstep
