// A half-step from rows to tasks: cut by counted work, long rows by chunks, sums in task order.
#pragma once
#include <algorithm>
#include <memory>
#include <new>
#include <vector>

#include "kernels.hpp"
#include "parallel.hpp"

namespace halfstep {

struct Task {
  int64_t row0, row1;   // rows, or one long row
  int64_t k0, k1;       // its chunk of cells, for a long row
  int64_t long_number;  // -1: ordinary rows
};

template <class T>
struct LongRow {
  int64_t row;
  std::vector<std::unique_ptr<T[]>> parts;
  std::atomic<int> missing{0};
};

// Tasks do not depend on the number of threads, so neither do the sums nor the order of any addition.
template <class T>
std::vector<Task> plan(const HalfStep<T>& h, bool split_long, std::vector<std::unique_ptr<LongRow<T>>>& long_rows) {
  const double f = h.free();
  auto work = [&](int64_t i) {
    const double n = double(h.indptr[i + 1] - h.indptr[i]);
    return n < f ? n * n * f + 8 * n * f + 64 : n * f * f + f * f * f / 3 + 64;
  };
  double total = 0;
  for (int64_t i = 0; i < h.n_own; ++i) total += work(i);
  const double share = total / 256;
  std::vector<Task> tasks, rest;
  int64_t first = 0;
  double sum = 0;
  auto cut = [&](int64_t end) {
    if (end > first) rest.push_back({first, end, 0, 0, -1});
    first = end, sum = 0;
  };
  for (int64_t i = 0; i < h.n_own; ++i) {
    const int64_t k0 = h.indptr[i], k1 = h.indptr[i + 1];
    if (split_long && k1 - k0 > long_row) {
      cut(i);
      auto row = std::make_unique<LongRow<T>>();
      row->row = i;
      for (int64_t k = k0; k < k1; k += chunk_cells)
        tasks.push_back({i, i + 1, k, k + chunk_cells < k1 ? k + chunk_cells : k1, int64_t(long_rows.size())});
      row->missing = int((k1 - k0 + chunk_cells - 1) / chunk_cells);
      row->parts.resize(row->missing);
      long_rows.push_back(std::move(row));
      first = i + 1;
      continue;
    }
    if ((sum += work(i)) >= share && !(h.complete && (i + 1) % complete_batch)) cut(i + 1);
  }
  cut(h.n_own);
  tasks.insert(tasks.end(), rest.begin(), rest.end());
  return tasks;
}

template <class T>
struct Workers {
  const Kernels<T>& kernels;
  const HalfStep<T>& h;
  std::vector<void*> scratch;
  Workers(const Kernels<T>& k, const HalfStep<T>& h, int n) : kernels(k), h(h), scratch(n, nullptr) {}
  void* operator[](int worker) {
    if (!scratch[worker] && !(scratch[worker] = kernels.open(h))) throw std::bad_alloc();
    return scratch[worker];
  }
  ~Workers() {
    for (void* s : scratch)
      if (s) kernels.close(s);
  }
};

// Solves every row of the own side. With `evaluate`, the sums hold what the new rows cost on their cells.
template <class T>
Sums half_step(const Kernels<T>& kernels, HalfStep<T> h, bool evaluate, int n_threads) {
  for (int64_t i = 0; i < h.n_own; ++i) h.longest = std::max(h.longest, h.indptr[i + 1] - h.indptr[i]);
  const bool split = h.loss.kind == LossKind::squared && !h.nonnegative && !h.complete;
  std::vector<std::unique_ptr<LongRow<T>>> long_rows;
  const std::vector<Task> tasks = plan(h, split, long_rows);
  std::vector<Sums> sums(tasks.size() + 1);
  {
    Workers<T> workers(kernels, h, n_threads);
    const size_t size = kernels.part_size(h.free());
    parallel(n_threads, int64_t(tasks.size()), [&](int worker, int64_t number) {
      const Task& task = tasks[number];
      if (task.long_number < 0) {
        kernels.rows(h, task.row0, task.row1, evaluate, workers[worker], sums[number]);
        return;
      }
      LongRow<T>& row = *long_rows[task.long_number];
      const size_t part = size_t((task.k0 - h.indptr[task.row0]) / chunk_cells);
      row.parts[part].reset(new T[size]);
      kernels.part(h, task.row0, task.k0, task.k1, workers[worker], row.parts[part].get());
      if (row.missing.fetch_sub(1) > 1) return;
      std::vector<T*> parts;
      for (auto& p : row.parts) parts.push_back(p.get());
      kernels.finish(h, task.row0, parts.data(), int(parts.size()), workers[worker], sums[number]);
      row.parts.clear();
    });
  }
  // Who finishes a long row depends on timing; its sums go to one place in row order.
  const size_t n_chunks =
      tasks.size() - size_t(std::count_if(tasks.begin(), tasks.end(), [](const Task& t) { return t.long_number < 0; }));
  std::vector<Sums> by_row(long_rows.size());
  for (size_t number = 0; number < n_chunks; ++number) by_row[tasks[number].long_number].add(sums[number]);
  if (evaluate)
    parallel(n_threads, int64_t(n_chunks), [&](int, int64_t number) {
      sums[number] = Sums();
      kernels.evaluate(h, tasks[number].row0, tasks[number].k0, tasks[number].k1, sums[number]);
    });
  Sums total;
  for (const Sums& s : by_row) total.add(s);
  for (size_t number = evaluate ? 0 : n_chunks; number < tasks.size(); ++number) total.add(sums[number]);
  return total;
}

// What the cells of each row add to its quadratic, (n_own, f + 1, f) in `out`, which starts at zero: the lower triangle
// of sum (w - w0) x x', then the linear terms. Squared loss. Pieces of a row that live apart are added up by the
// caller.
template <class T>
void quadratics(const Kernels<T>& kernels, HalfStep<T> h, double* out, int n_threads) {
  for (int64_t i = 0; i < h.n_own; ++i) h.longest = std::max(h.longest, h.indptr[i + 1] - h.indptr[i]);
  Workers<T> workers(kernels, h, n_threads);
  const int f = h.free();
  std::vector<std::vector<T>> parts(n_threads);
  parallel(n_threads, h.n_own, [&](int worker, int64_t i) {
    parts[worker].resize(kernels.part_size(f));
    for (int64_t k = h.indptr[i]; k < h.indptr[i + 1]; k += chunk_cells) {
      kernels.part(h, i, k, std::min(k + chunk_cells, h.indptr[i + 1]), workers[worker], parts[worker].data());
      kernels.add_part(f, parts[worker].data(), out + size_t(i) * (f + 1) * f);
    }
  });
}

// What the present rows cost on their cells; solves nothing.
template <class T>
Sums evaluate(const Kernels<T>& kernels, const HalfStep<T>& h, int n_threads) {
  std::vector<Task> tasks;
  for (int64_t i = 0; i < h.n_own; ++i)
    for (int64_t k = h.indptr[i]; k < h.indptr[i + 1]; k += chunk_cells)
      if (!tasks.empty() && tasks.back().k1 + h.indptr[i + 1] - k < tasks.back().k0 + chunk_cells)
        tasks.back().row1 = i + 1, tasks.back().k1 = h.indptr[i + 1];
      else
        tasks.push_back({i, i + 1, k, std::min(k + chunk_cells, h.indptr[i + 1]), -1});
  std::vector<Sums> sums(tasks.size());
  parallel(n_threads, int64_t(tasks.size()), [&](int, int64_t number) {
    const Task& task = tasks[number];
    for (int64_t i = task.row0; i < task.row1; ++i)
      kernels.evaluate(h, i, std::max(task.k0, h.indptr[i]), std::min(task.k1, h.indptr[i + 1]), sums[number]);
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
