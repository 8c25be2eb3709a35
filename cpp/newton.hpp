// A row whose cells are not all quadratic: Newton steps with a line search, stopped by a duality gap.
//
//   1/2 b'Bb - q'b + sum_k half_k phi(r_k),    r_k = sign_k (x_k'b + pinned and offset) - shift_k,    half_k = w_k / 2
//
// base.hpp has B and q, turned.hpp the x_k. `Terms` knows the loss. It gives a smooth stand-in e(r) for each phi(r),
// with slope and curvature, such that the slope is a subgradient of phi somewhere, and so a feasible dual variable a_k.
// The gap adds up term by term, and no term is negative:
//
//   gap = sum_k half_k (phi(r_k) + phi*(a_k) - a_k r_k)  +  1/2 g'B^-1 g,     g = Bb - q + sum_k half_k sign_k a_k x_k
#pragma once
#include "base.hpp"
#include "bounded.hpp"
#include "turned.hpp"

namespace halfstep::HALFSTEP_ISA {

constexpr int block_cells = 256;     // whose terms are added up in T, before they are in float64
constexpr double flat_slope = 0.15;  // of the slope at its start: where a line search may end
constexpr double far = 8;            // times the size of a row's problem: numbers computed there are too coarse here

// What `Terms` says about `width` cells.
template <class T>
struct Smooth {
  Vec<T> value, slope, curvature;  // of the smooth stand-in e(r)
  Vec<T> tangent;                  // -phi*(slope): the tangent of that slope at 0
};
template <class T>
struct True {
  Vec<T> phi, gap;  // phi(r), and phi(r) + phi*(slope) - slope r
};

template <class T, class Terms>
class NewtonRow {
 public:
  NewtonRow(const HalfStep<T>& h, int64_t i, const Cells<T>& cells, Workspace<T>& ws, Terms& terms)
      : h(h),
        i(i),
        ws(ws),
        terms(terms),
        n(cells.n),
        f(h.free()),
        ld(panel_ld<T>(f)),
        cells(cells),
        base(h, i, cells, ws),
        x(cells, ws) {}

  // Leaves the best row found in ws.b, its value in ws.value, its dual variables in h.duals. False: no finite row
  // exists.
  bool solve(Sums& sums) {
    x.turn();
    if (!base.sound()) return false;
    read_cells();
    ws.zero = at_zero();
    keep_bounds();
    const State now = start();
    if (!std::isfinite(now.primal)) return false;
    Course course;
    follow(now, course, sums);
    // Dual variables of the sweep before may hold a row where they belonged: it starts again from nothing.
    if (course.gap > solved_gap(h) && warm()) {
      std::memset(ws.b, 0, sizeof(T) * f);
      std::memset(ws.multiplier, 0, sizeof(T) * n);
      const State cold = begin();
      if (std::isfinite(cold.primal)) follow(cold, course, sums);
    }
    std::memcpy(ws.b, ws.best, sizeof(T) * f);
    ws.value = course.best;
    if (h.duals) std::memcpy(h.duals + cells.first, ws.slope, sizeof(T) * n);
    if (course.gap > sums.gap) sums.gap = course.gap;
    if (course.gap > solved_gap(h) && (sums.stalled < 0 || i < sums.stalled)) sums.stalled = i;
    return std::isfinite(course.best);
  }

 private:
  struct State {
    double quadratic;    // the part of B and q
    double smooth;       // value of the smooth stand-in problem
    double primal;       // the row problem's value
    double cells, rest;  // the two parts of the gap
    double gap;
    double scale;  // sum of the sizes of the terms: what the gap is relative to
  };

  // The best row so far, in ws.best: its value and scale, a bound of the optimum, and how far they are apart.
  struct Course {
    double best = INFINITY, scale = 0, bound = -INFINITY, gap = INFINITY;
  };

  const HalfStep<T>& h;
  const int64_t i;
  Workspace<T>& ws;
  Terms& terms;
  const int64_t n;
  const int f, ld;
  const Cells<T>& cells;
  const Base<T> base;
  Turned<T> x;

  // Whether the row began from a row and dual variables of its own.
  bool warm() const {
    if (h.duals) return true;
    const T* old = h.own + i * h.d + h.free_start;
    for (int c = 0; c < f; ++c)
      if (old[c] != 0) return true;
    return false;
  }

  // Cells that fill the last vector have no weight, at a target that every loss knows.
  void read_cells() {
    const auto fill = [&](T* to, const T* from, T value) {
      for (int64_t k = 0; k < n; ++k) to[k] = from ? from[k] : value;
      for (int64_t k = n; k < Turned<T>::round_up(n); ++k) to[k] = 0;
    };
    fill(ws.half, nullptr, cells.row_weight * h.weight / 2);
    for (int64_t k = 0; (h.weights || h.other_weights) && k < n; ++k) ws.half[k] = cells.weight(k) / 2;
    fill(ws.target, h.targets ? h.targets + cells.first : nullptr, h.target);
    fill(ws.sign, h.loss.margin() ? ws.target : nullptr, T(1));
    fill(ws.multiplier, h.duals ? h.duals + cells.first : nullptr, T(0));
    fill(ws.fixed, h.offsets ? h.offsets + cells.first : nullptr, T(0));
    for (const auto [first, stop] : {std::pair{0, h.free_start}, std::pair{h.free_stop, h.d}}) {
      if (first == stop) continue;
      x.scores(cells.own + first, first, stop - first, ws.z);
      for (int64_t k = 0; k < n; k += width<T>) store(ws.fixed + k, load(ws.fixed + k) + load(ws.z + k));
    }
    for (int64_t k = 0; k < n; k += width<T>)
      store(ws.fixed + k,
            terms.residual ? load(ws.fixed + k) - load(ws.target + k) : load(ws.sign + k) * load(ws.fixed + k));
  }

  // What the row costs where its free columns are zero, by the sizes of its terms.
  double at_zero() const {
    double sum = base.held;
    for (int64_t first = 0; first < n; first += block_cells) {
      const int64_t last = n - first < block_cells ? n : first + block_cells;
      Vec<T> part = {};
      for (int64_t k = first; k < last; k += width<T>) {
        const Vec<T> phi = terms.value(load(ws.fixed + k), ws.target + k);
        part += load(ws.half + k) * (phi < 0 ? -phi : phi);
      }
      sum += horizontal_sum<T>(part);
    }
    return sum;
  }

  void keep_bounds() {
    for (int c = h.nonnegative_start; c < h.nonnegative_stop; ++c)
      if (ws.b[c] < 0) ws.b[c] = 0;
  }

  State start() {
    const State now = begin();
    if (std::isfinite(now.primal)) return now;
    std::memset(ws.b, 0, sizeof(T) * f);  // where a loss overflows at the old row, zero may do
    return begin();
  }

  State begin() {
    score();
    terms.start(ws.half, ws.z, ws.multiplier, n);
    return evaluate();
  }

  // By how much a step of the free columns moves r of every cell.
  void along(const T* step, T* r) const {
    x.scores(step, h.free_start, f, r);
    for (int64_t k = 0; h.loss.margin() && k < n; k += width<T>) store(r + k, load(r + k) * load(ws.sign + k));
  }

  // r of every cell into ws.z.
  void score() {
    along(ws.b, ws.z);
    for (int64_t k = 0; k < n; k += width<T>) store(ws.z + k, load(ws.z + k) + load(ws.fixed + k));
  }

  // Newton steps from where the row is until its gap is closed, or falls no more.
  void follow(State now, Course& course, Sums& sums) {
    double stalled_at = INFINITY, from = now.scale;
    int step = 0, since = 0;
    for (;; ++step) {
      if (now.scale * far < from) {  // scores and bounds are as good as the rounding of where they were computed
        from = now.scale, course = Course();
        score();
        now = evaluate();
      }
      if (now.primal < course.best) {
        course.best = now.primal, course.scale = now.scale;
        std::memcpy(ws.best, ws.b, sizeof(T) * f);
      }
      if (now.primal - now.gap > course.bound && now.scale <= far * course.scale) course.bound = now.primal - now.gap;
      course.gap = course.scale > 0 ? (course.best - course.bound) / course.scale : course.best - course.bound;
      if (course.gap <= h.tolerance || step >= h.max_steps) break;
      if (course.gap < 0.5 * stalled_at)
        stalled_at = course.gap, since = 0;
      else if (++since > 12)
        break;  // the gap is at the rounding of T
      const double enough = h.tolerance * now.scale;
      if (!terms.sharpen(now.cells, now.rest, enough, ws.slope, ws.multiplier, n) && !move(now, sums)) break;
      now = evaluate();
    }
    sums.steps += step;
  }

  // Slopes, curvatures (ws.s), the gradient (ws.r) and the gap at ws.z.
  State evaluate() {
    double sums[4] = {};
    for (int64_t first = 0; first < n; first += block_cells) {
      const int64_t last = n - first < block_cells ? n : first + block_cells;
      Vec<T> smooth = {}, primal = {}, gap = {}, size = {};
      for (int64_t k = first; k < last; k += width<T>) {
        const Vec<T> r = load(ws.z + k), half = load(ws.half + k), sign = load(ws.sign + k);
        const Smooth<T> e = terms.smooth(r, ws.target + k, load(ws.multiplier + k));
        const True<T> cell = terms.compare(r, e);
        smooth += half * e.value, primal += half * cell.phi, gap += half * cell.gap;
        size += half * (cell.phi < 0 ? -cell.phi : cell.phi);
        store(ws.s + k, half * sign * sign * e.curvature), store(ws.slope + k, e.slope);
        store(ws.l + k, half * sign * e.slope);
      }
      Vec<T> parts[] = {smooth, primal, gap, size};
      add_sums<T>(parts, sums);
    }
    State now = {0, sums[0], sums[1], sums[2], 0, 0, sums[3]};
    x.pulled(ws.l, h.free_start, f, ws.v);
    base.apply(ws.b, ws.diagonal);
    for (int c = 0; c < f; c += width<T>) store(ws.r + c, load(ws.diagonal + c) - load(ws.base + c) + load(ws.v + c));
    const double quadratic = base.constant + dot_wide(ws.diagonal, ws.b, f) / 2 - dot_wide(ws.base, ws.b, f);
    now.quadratic = quadratic;
    now.smooth += quadratic, now.primal += quadratic;
    now.scale = terms.nonnegative ? now.primal : now.scale + std::fabs(quadratic);
    now.rest = base.distance(ws.r, ws.b);
    now.gap = now.cells + now.rest;
    return now;
  }

  // The cells that are curved, one after the other: their weights in ws.s, their indices in ws.curved.
  int64_t collect() {
    int64_t m = 0;
    for (int64_t k = 0; k < n; ++k) ws.curved[m] = int32_t(k), m += ws.s[k] > 0;
    for (int64_t j = 0; j < m; ++j) {
      const int32_t k = ws.curved[j];
      ws.s[j] = ws.s[k], ws.curved[j] = cells.indices[k];
    }
    return m;
  }

  // H = B + sum s x x' over the first m cells of ws.curved, into ws.quadratic, with -g as its last row.
  void build_system(int64_t m) {
    std::memset(ws.l, 0, sizeof(T) * m);
    accumulate(cells.x, h.d, f, ws.curved, m, ws.s, ws.l, ws.quadratic, ws.panel);
    base.add_to(ws.quadratic);
    for (int c = 0; c < f; ++c) ws.quadratic[ptrdiff_t(f) * ld + c] = -ws.r[c];
  }

  // The Newton step where B = lam I and fewer cells are curved than there are free columns: with y_k = sqrt(s_k) x_k
  // and (lam I + YY') u = Y g it is (Y'u - g) / lam. False: not positive definite.
  bool short_direction(int m) {
    constexpr int w = width<T>;
    const bool narrow = m < w;  // with g beside it, Y' is one vector wide
    const int wide = narrow ? w : panel_ld<T>(m), ld = narrow ? cholesky_block<T> : wide;
    pack_transposed<T>(
        m, f, [&](int k) { return cells.x + int64_t(ws.curved[k]) * h.d; }, [&](int k) { return std::sqrt(ws.s[k]); },
        static_cast<const T*>(nullptr), ws.panel, wide);
    for (int c = 0; c < f; ++c) {
      T* row = ws.panel + ptrdiff_t(c) * wide;
      if (m % w == 0) store(row + m, Vec<T>{});
      row[m] = ws.r[c];
    }
    if (narrow)
      tiles<T, 1>(m, Put::set, f, ws.panel, 1, wide, ws.panel, wide, ws.quadratic, ld, nothing);
    else
      panel_gram(Put::set, f, ws.panel, wide, m + 1, m, ws.quadratic, ld, nothing);
    for (int k = 0; k < m; ++k) ws.quadratic[ptrdiff_t(k) * ld + k] += T(base.lam);
    const bool solved =
        narrow ? solve_beside(ws.quadratic, m, ws.l) : solve_quadratic(ws.quadratic, ld, m, ws.scratch, ws.l);
    if (!solved) return false;
    ws.l[m] = -1;
    for (int k = m + 1; k % w != 0; ++k) ws.l[k] = 0;
    const T scale = 1 / T(base.lam);
    for (int c = 0; c < f; c += w) {
      Vec<T> sum[w] = {};
      for (int k = 0; k <= m; k += w) {
        const Vec<T> by = scale * load(ws.l + k);
        const T* at = ws.panel + ptrdiff_t(c) * wide + k;
#pragma GCC unroll 16
        for (int j = 0; j < w; ++j) sum[j] += by * load(at + ptrdiff_t(c + j < f ? j : 0) * wide);
      }
      store(ws.p + c, sum_each<T, w>(sum));
    }
    for (int c = f; c % w != 0; ++c) ws.p[c] = 0;
    return true;
  }

  bool direction(Sums& sums) {
    const int64_t m = collect();
    if (base.plain() && !h.nonnegative && m < f && short_direction(int(m))) return true;
    build_system(m);
    if (h.nonnegative)
      return solve_bounded(ws.quadratic, ld, f, ws.b, h.nonnegative_start, h.nonnegative_stop, ws.bounded, ws.scratch,
                           ws.p, ws.diagonal);
    if (solve_quadratic(ws.quadratic, ld, f, ws.scratch, ws.p)) return true;
    build_system(m);
    ++sums.repaired;
    return solve_repaired(ws.quadratic, ld, f, ws.p);
  }

  // One Newton step. False: nothing lower can be found.
  bool move(const State& now, Sums& sums) {
    if (!direction(sums)) return false;
    base.apply(ws.p, ws.diagonal);
    const double slope = dot_wide(ws.r, ws.p, f), curvature = dot_wide(ws.diagonal, ws.p, f);
    const double linear = slope - dot_wide(ws.v, ws.p, f);
    if (!(slope < 0)) return false;
    along(ws.p, ws.l);
    const double t = search(
        [&](double t) {
          Point at = smooth_cells(T(t));
          at.value += now.quadratic + t * (linear + t / 2 * curvature);
          at.slope += linear + t * curvature;
          at.curvature += curvature;
          return at;
        },
        now.smooth, slope);
    if (t == 0) return false;
    for (int64_t k = 0; k < n; k += width<T>) store(ws.z + k, load(ws.z + k) + T(t) * load(ws.l + k));
    axpy(T(t), ws.p, ws.b, f);
    keep_bounds();
    return true;
  }

  struct Point {
    double value, slope, curvature;
  };

  // The smooth stand-in of the cells at ws.z + t ws.l, as a function of t.
  Point smooth_cells(T t) const {
    double sums[4] = {};
    for (int64_t first = 0; first < n; first += block_cells) {
      const int64_t last = n - first < block_cells ? n : first + block_cells;
      Vec<T> value = {}, slope = {}, curvature = {};
      for (int64_t k = first; k < last; k += width<T>) {
        const Vec<T> along = load(ws.l + k), half = load(ws.half + k);
        const Smooth<T> e = terms.smooth(load(ws.z + k) + t * along, ws.target + k, load(ws.multiplier + k));
        value += half * e.value, slope += half * along * e.slope, curvature += half * along * along * e.curvature;
      }
      Vec<T> parts[] = {value, slope, curvature, Vec<T>{}};
      add_sums<T>(parts, sums);
    }
    return {sums[0], sums[1], sums[2]};
  }

  // A step t > 0 at which the value has fallen and the slope has lost most of its size; 0 where rounding hides any
  // fall.
  template <class At>
  double search(At at, double value, double slope) const {
    const double slack = 8 * std::numeric_limits<T>::epsilon() * std::fabs(value);
    double low = 0, high = INFINITY, t = 1, best = 0, lowest = value;
    for (int tries = 0; tries < 30; ++tries) {
      const Point p = at(t);
      const bool fell = p.value <= value + 1e-4 * t * slope + slack;
      if (fell && std::fabs(p.slope) <= -flat_slope * slope) return t;
      if (fell && h.nonnegative && t == 1 && p.slope < 0) return t;  // beyond it bounds are left
      if (p.value < lowest) lowest = p.value, best = t;
      if (!fell || p.slope > 0)
        high = t;
      else
        low = t;
      const double width = high - low, next = t - p.slope / p.curvature;
      if (std::isfinite(high))
        t = next > low + 0.1 * width && next < high - 0.1 * width ? next : low + width / 2;
      else
        t = next > 1.5 * t && next < 10 * t ? next : 2 * t;
      if (width < 1e-10 * t) break;
    }
    return best;
  }
};

}  // namespace halfstep::HALFSTEP_ISA
