// Rows that see every row of the other side: one row in each lane of a vector. Nothing is gathered, the products x x'
// are made once for all lanes, and factoring costs a vector operation where a row alone costs a scalar one.
//
// A triangle is kept as vectors of lanes, entry (r, c) with c <= r at r (r + 1)/2 + c, the right-hand side behind it.
#pragma once
#include "solve.hpp"

namespace halfstep::HALFSTEP_ISA {

constexpr int complete_chunk = 64;  // cells whose products are held at a time
constexpr int complete_tile = 8;    // entries of the triangle summed in registers

template <class T>
struct CompleteRows {
  static constexpr int w = width<T>;
  const HalfStep<T>& h;
  const int f, triangle, entries;  // entries: triangle and right-hand side, each padded to whole tiles
  T *products, *weights, *linear, *sums, *label;
  void* memory;
  int64_t held = -1;  // first cell of the products in memory

  explicit CompleteRows(const HalfStep<T>& h)
      : h(h),
        f(h.free()),
        triangle(round_up(f * (f + 1) / 2, complete_tile)),
        entries(triangle + round_up(f, complete_tile)) {
    const size_t sizes[] = {size_t(complete_chunk) * entries, size_t(complete_chunk) * w, size_t(complete_chunk) * w,
                            size_t(entries) * w, size_t(f) * w};
    T** const places[] = {&products, &weights, &linear, &sums, &label};
    size_t total = 0;
    for (size_t size : sizes) total += (size + 15) / 16 * 16;
    memory = std::aligned_alloc(64, (total * sizeof(T) + 63) / 64 * 64);
    if (!memory) return;
    std::memset(memory, 0, total * sizeof(T));
    T* at = static_cast<T*>(memory);
    for (int k = 0; k < 5; ++k) *places[k] = at, at += (sizes[k] + 15) / 16 * 16;
  }
  ~CompleteRows() { std::free(memory); }
  CompleteRows(const CompleteRows&) = delete;
  CompleteRows& operator=(const CompleteRows&) = delete;

  // x x' and x of the cells k0..k1.
  void multiply(int64_t k0, int64_t k1) {
    if (held == k0) return;
    held = k0;
    for (int64_t k = k0; k < k1; ++k) {
      const T* x = h.other + k * h.d + h.free_start;
      T* to = products + (k - k0) * entries;
      for (int r = 0; r < f; ++r, to += r) scaled_copy(x, x[r], to, r + 1);
      std::memcpy(products + (k - k0) * entries + triangle, x, sizeof(T) * f);
    }
  }

  // Weight and linear coefficient w (t - offset - pinned part) of the cells k0..k1 in every lane.
  void turn(int64_t first, int count, int64_t k0, int64_t k1) {
    const int64_t n = k1 - k0;
    for (int lane = 0; lane < w; ++lane) {
      const int64_t i = first + (lane < count ? lane : count - 1), base = h.indptr[i];
      const Cells<T> cells(h, i, base + k0, base + k1);
      for (int64_t k = 0; k < n; ++k) {
        weights[k * w + lane] = cells.weight(k);
        linear[k * w + lane] = cells.target(k) - cells.offset(k);
      }
    }
    for (int c = 0; c < h.d; ++c) {
      if (c == h.free_start) c = h.free_stop;
      if (c == h.d) break;
      T pinned[w];
      for (int lane = 0; lane < w; ++lane) pinned[lane] = h.own[(first + (lane < count ? lane : count - 1)) * h.d + c];
      const Vec<T> own = load(pinned);
      for (int64_t k = 0; k < n; ++k) store(linear + k * w, load(linear + k * w) - own * h.other[(k0 + k) * h.d + c]);
    }
    for (int64_t k = 0; k < n; ++k) store(linear + k * w, load(linear + k * w) * load(weights + k * w));
  }

  void add(int64_t n, int from, int to, const T* by) {
    for (int e = from; e < to; e += complete_tile) {
      Vec<T> sum[complete_tile];
      for (int t = 0; t < complete_tile; ++t) sum[t] = load(sums + (e + t) * w);
      for (int64_t k = 0; k < n; ++k) {
        const Vec<T> lanes = load(by + k * w);
        const T* x = products + k * entries + e;
#pragma GCC unroll 8
        for (int t = 0; t < complete_tile; ++t) sum[t] += x[t] * lanes;
      }
      for (int t = 0; t < complete_tile; ++t) store(sums + (e + t) * w, sum[t]);
    }
  }

  T* entry(int r, int c) { return sums + (r * (r + 1) / 2 + c) * w; }
  T* right(int r) { return sums + (triangle + r) * w; }

  // L in place of the triangle, its diagonal inverted. A lane that is not positive definite comes out not finite.
  void factor() {
    for (int r = 0; r < f; ++r) {
      for (int c = 0; c <= r; ++c) {
        Vec<T> s = load(entry(r, c));
        const T *left = entry(r, 0), *up = entry(c, 0);
        for (int k = 0; k < c; ++k) s -= load(left + k * w) * load(up + k * w);
        if (c < r) {
          store(entry(r, c), s * load(entry(c, c)));
        } else {
          T pivot[w];
          store(pivot, s);
          for (int lane = 0; lane < w; ++lane) pivot[lane] = T(1) / std::sqrt(pivot[lane]);
          store(entry(r, r), load(pivot));
        }
      }
    }
  }
  void forward(T* x) {
    for (int r = 0; r < f; ++r) {
      Vec<T> s = load(x + r * w);
      const T* left = entry(r, 0);
      for (int k = 0; k < r; ++k) s -= load(left + k * w) * load(x + k * w);
      store(x + r * w, s * load(entry(r, r)));
    }
  }
  void backward(T* x) {
    for (int r = f - 1; r >= 0; --r) {
      const Vec<T> s = load(x + r * w) * load(entry(r, r));
      store(x + r * w, s);
      const T* left = entry(r, 0);
      for (int k = 0; k < r; ++k) store(x + k * w, load(x + k * w) - load(left + k * w) * s);
    }
  }

  // labelled.hpp, with the factor shared by all lanes; z = L^-1 q stands in the right-hand side.
  void add_labels(int64_t first, int count) {
    const T* vector = h.label_vector;
    for (int r = 0; r < f; ++r)
      for (int lane = 0; lane < w; ++lane) label[r * w + lane] = vector[h.free_start + r];
    forward(label);
    Vec<T> cross = {}, square = {};
    for (int r = 0; r < f; ++r) {
      const Vec<T> v = load(label + r * w);
      cross += v * load(right(r)), square += v * v;
    }
    T by[w] = {};
    for (int lane = 0; lane < count; ++lane) {
      const int64_t i = first + lane;
      if (!is_labelled(h, i)) continue;
      const T* own = h.own + i * h.d;
      const double pinned =
          dot(own, vector, h.free_start) + dot(own + h.free_stop, vector + h.free_stop, h.d - h.free_stop);
      const double half = 0.5 * h.label_weights[i], t = h.label_targets[i];
      const double z = label_score(pinned + cross[lane], half * square[lane], t);
      by[lane] = T(half * (sigmoid(z) - t));
    }
    for (int r = 0; r < f; ++r) store(right(r), load(right(r)) - load(by) * load(label + r * w));
  }

  // Solves rows first..first + count into the right-hand side, a lane each.
  void solve(int64_t first, int count) {
    std::memset(sums, 0, sizeof(T) * entries * w);
    for (int64_t k = 0; k < h.n_other; k += complete_chunk) {
      const int64_t stop = k + complete_chunk < h.n_other ? k + complete_chunk : h.n_other;
      multiply(k, stop);
      turn(first, count, k, stop);
      add(stop - k, 0, triangle, weights);
      add(stop - k, triangle, entries, linear);
    }
    for (int lane = 0; lane < w; ++lane) {
      const int64_t i = first + (lane < count ? lane : count - 1);
      const T lam = h.penalty(i), *mu = h.prior(i);
      for (int r = 0; r < f; ++r) {
        entry(r, r)[lane] += lam;
        if (mu) right(r)[lane] += lam * mu[r];
      }
    }
    factor();
    forward(right(0));
    if (h.label_vector) add_labels(first, count);
    backward(right(0));
  }
};

// Rows first..last of a half-step in which every row has every cell. A row that fails takes the ordinary way.
template <class T>
void solve_complete(const HalfStep<T>& h, int64_t first, int64_t last, bool evaluate, Workspace<T>& ws, Sums& sums) {
  constexpr int w = width<T>;
  CompleteRows<T> rows(h);
  for (int64_t i = first; i < last; i += w) {
    const int count = last - i < w ? int(last - i) : w;
    if (rows.memory) rows.solve(i, count);
    for (int lane = 0; lane < count; ++lane) {
      bool finite = rows.memory != nullptr;
      for (int c = 0; finite && c < rows.f; ++c) {
        ws.b[c] = rows.right(c)[lane];
        finite = std::isfinite(ws.b[c]);
      }
      if (!finite) {
        solve_row(h, i + lane, evaluate, ws, sums);
        continue;
      }
      put_row(h, i + lane, true, ws, sums);
      if (evaluate) evaluate_cells(h, i + lane, h.indptr[i + lane], h.indptr[i + lane + 1], sums);
    }
  }
}

}  // namespace halfstep::HALFSTEP_ISA
