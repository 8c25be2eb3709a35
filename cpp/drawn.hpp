// The Python face of what a sampler does with cells (cells.hpp). Rows are shared out by their numbers of cells.
#pragma once
#include <nanobind/stl/tuple.h>

#include <vector>

#include "arrays.hpp"
#include "kernels.hpp"
#include "parallel.hpp"

namespace halfstep {

constexpr int64_t pass_cells = 16384;

// Ends of runs of rows with about pass_cells cells each.
inline std::vector<int64_t> row_runs(const int64_t* indptr, int64_t n) {
  std::vector<int64_t> ends = {0};
  for (int64_t i = 0; i < n; ++i)
    if (i + 1 == n || indptr[i + 1] - indptr[ends.back()] >= pass_cells || i + 1 - ends.back() >= pass_cells)
      ends.push_back(i + 1);
  return ends;
}

template <class Work>
void by_runs(const int64_t* indptr, int64_t n, int n_threads, Work work) {
  nb::gil_scoped_release released;
  const auto ends = row_runs(indptr, n);
  parallel(n_threads, int64_t(ends.size()) - 1, [&](int, int64_t task) { work(ends[task], ends[task + 1]); });
}

template <class T>
void bind_drawn(nb::module_& m) {
  using namespace nb::literals;
  m.def(
      "residuals",
      [](In<T> left, In<T> moved, In<T> base, In<T> right, In<int64_t> indptr, In<int32_t> indices, In<T> targets,
         MaybeIn<T> weights, bool keep, int n_threads) {
        Residuals<T> r;
        r.d = columns_of(left, "left must be two-dimensional");
        const int64_t n = int64_t(left.shape(0)), cells = int64_t(indices.shape(0));
        expect(columns_of(right, "right must be two-dimensional") == r.d &&
                   columns_of(moved, "moved must be two-dimensional") == r.d && int64_t(moved.shape(0)) == n &&
                   base.ndim() == 1 && int64_t(base.shape(0)) == n,
               "left, moved and right must have the same columns, moved and base the rows of left");
        expect_offsets(indptr, n, cells, "indptr does not match rows and cells");
        expect(targets.ndim() == 1 && int64_t(targets.shape(0)) == cells, "targets must have one value for each cell");
        expect_places(indices, int64_t(right.shape(0)), "indices must be rows of right");
        r.left = left.data(), r.moved = moved.data(), r.base = base.data(), r.right = right.data();
        r.indptr = indptr.data(), r.indices = indices.data(), r.targets = targets.data();
        r.weights = vector_of(weights, size_t(cells), "weights must have one value for each cell");
        auto sums = make<double>({size_t(n), size_t(6)});
        auto e = make<T>({size_t(keep ? cells : 0)}), x = make<T>({size_t(keep ? cells : 0)});
        r.sums = sums.data();
        if (keep) r.e = e.data(), r.x = x.data();
        by_runs(r.indptr, n, n_threads, [&](int64_t a, int64_t b) { kernels<T>().residuals(r, a, b); });
        return std::tuple(sums, e, x);
      },
      "left"_a.noconvert(), "moved"_a.noconvert(), "base"_a.noconvert(), "right"_a.noconvert(), "indptr"_a.noconvert(),
      "indices"_a.noconvert(), "targets"_a.noconvert(), "weights"_a.noconvert(), "keep"_a, "n_threads"_a,
      "For each row, over its cells: sums of w, w e, w x, w e^2, w e x, w x^2, where e = target - left . right and\n"
      "x = moved . right + base; then e and x of all cells, if they are to be kept.");

  const auto drawn = [](const In<int64_t>& indptr, const In<T>& values, uint64_t seed, uint32_t sweep,
                        int64_t first_row) {
    DrawnCells<T> c;
    expect_offsets(indptr, int64_t(indptr.shape(0)) - 1, int64_t(values.shape(0)), "indptr does not match the cells");
    c.indptr = indptr.data(), c.values = values.data(), c.noise = Noise{seed, sweep, 0, first_row};
    return c;
  };
  m.def(
      "draw_weights",
      [drawn](In<int64_t> indptr, In<T> residuals, MaybeIn<T> given, double nu, double alpha, uint64_t seed,
              uint32_t sweep, int64_t first_row, int n_threads) {
        DrawnCells<T> c = drawn(indptr, residuals, seed, sweep, first_row);
        expect(nu >= 2, "nu must be at least 2");
        c.given = vector_of(given, residuals.shape(0), "given must have one value for each cell");
        c.nu = nu, c.alpha = alpha;
        auto out = make<T>({residuals.shape(0)});
        c.out = out.data();
        by_runs(c.indptr, int64_t(indptr.shape(0)) - 1, n_threads,
                [&](int64_t a, int64_t b) { kernels<T>().weights(c, a, b); });
        return out;
      },
      "indptr"_a.noconvert(), "residuals"_a.noconvert(), "given"_a.noconvert(), "nu"_a, "alpha"_a, "seed"_a, "sweep"_a,
      "first_row"_a, "n_threads"_a,
      "g Gamma((nu + g) / 2, rate (nu + alpha g e^2) / 2) for every cell, by the number of its row and place.");
  m.def(
      "draw_latent",
      [drawn](In<int64_t> indptr, In<T> scores, In<int32_t> codes, In<double> cuts, uint64_t seed, uint32_t sweep,
              int64_t first_row, int n_threads) {
        DrawnCells<T> c = drawn(indptr, scores, seed, sweep, first_row);
        expect(codes.ndim() == 1 && codes.shape(0) == scores.shape(0), "codes must have one value for each cell");
        expect_places(codes, int64_t(cuts.shape(0)) - 1, "codes must be classes");
        c.codes = codes.data(), c.cuts = cuts.data();
        auto out = make<T>({scores.shape(0)});
        c.out = out.data();
        by_runs(c.indptr, int64_t(indptr.shape(0)) - 1, n_threads,
                [&](int64_t a, int64_t b) { kernels<T>().latent(c, a, b); });
        return out;
      },
      "indptr"_a.noconvert(), "scores"_a.noconvert(), "codes"_a.noconvert(), "cuts"_a.noconvert(), "seed"_a, "sweep"_a,
      "first_row"_a, "n_threads"_a, "Normals about the scores, each cut to (cuts[code], cuts[code + 1]).");
  m.def(
      "class_sums",
      [](In<T> scores, In<int32_t> codes, In<double> cuts, int n_threads) {
        const int64_t n = int64_t(scores.shape(0)), shares = (n + pass_cells - 1) / pass_cells;
        const int classes = int(cuts.shape(0)) - 1, size = 3 * classes - 3;
        expect(classes >= 2 && int64_t(codes.shape(0)) == n, "cuts must bound two classes, codes be one for each cell");
        expect_places(codes, classes, "codes must be classes");
        std::vector<double> parts(size_t(shares) * size, 0.0);
        auto out = make<double>({size_t(size)});
        {
          nb::gil_scoped_release released;
          parallel(n_threads, shares, [&](int, int64_t task) {
            kernels<T>().classes(scores.data(), codes.data(), cuts.data(), classes, task * pass_cells,
                                 std::min((task + 1) * pass_cells, n), parts.data() + task * size);
          });
        }
        for (int s = 0; s < size; ++s) {
          out.data()[s] = 0;
          for (int64_t task = 0; task < shares; ++task) out.data()[s] += parts[task * size + s];
        }
        return out;
      },
      "scores"_a.noconvert(), "codes"_a.noconvert(), "cuts"_a.noconvert(), "n_threads"_a,
      "Log likelihood of ordered classes, its gradient in the inner cuts, the diagonal and what is beside it of the\n"
      "second derivatives: 1 + (K - 1) + (K - 1) + (K - 2) numbers.");
}

}  // namespace halfstep
