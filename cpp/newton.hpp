// A row whose cells are not all quadratic: Newton steps with a line search, stopped by a duality gap.
//
//   1/2 b'Bb - q'b + sum_k half_k phi(r_k),    r_k = sign_k (x_k'b + pinned and offset) - shift_k,    half_k = w_k / 2
//
// B = lam I, or lam I + w0 (G - sum x x') where unobserved cells have a background: observed cells are taken out of it.
// `Terms` knows the loss. It gives a smooth stand-in e(r) for each phi(r), with slope and curvature, such that the
// slope is a subgradient of phi somewhere, and so a feasible dual variable a_k. The gap adds up term by term, and no
// term is negative:
//
//   gap = sum_k half_k (phi(r_k) + phi*(a_k) - a_k r_k)  +  1/2 g'B^-1 g,     g = Bb - q + sum_k half_k sign_k a_k x_k
//
// Free columns under a bound b_c >= 0 take xi_c = max(0, g_c - lam b_c) off g_c, at the price xi_c b_c.
#pragma once
#include "bounded.hpp"
#include "finish.hpp"

namespace halfstep::HALFSTEP_ISA {

constexpr int block_cells = 64;
constexpr double far = 8;  // times the size of a row's problem: numbers computed there are too coarse here

// What `Terms` says about up to block_cells cells.
template <class T>
struct alignas(64) Block {
  T value[block_cells], slope[block_cells], curvature[block_cells];  // of the smooth stand-in e(r)
  T tangent[block_cells];                                            // -phi*(slope): the tangent of that slope at 0
  T phi[block_cells], gap[block_cells];                              // phi(r), and phi(r) + phi*(slope) - slope r
};

template <class T, class Terms>
class NewtonRow {
 public:
  NewtonRow(const HalfStep<T>& h, int64_t i, const Cells<T>& cells, Workspace<T>& ws, Terms& terms)
      : h(h),
        i(i),
        cells(cells),
        ws(ws),
        terms(terms),
        n(cells.n),
        f(h.free()),
        ld(panel_ld<T>(f)),
        lam(h.penalty(i)) {}

  // Leaves the best row found in ws.b, its value in ws.value, its dual variables in h.duals. False: no finite row
  // exists.
  bool solve(Sums& sums) {
    read_base();
    if (dense && lam > 0 && !definite) return false;  // rounding has bent B: in these numbers there is no minimum
    read_cells();
    turn();
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
  const Cells<T>& cells;
  Workspace<T>& ws;
  Terms& terms;
  const int64_t n;
  const int f, ld;
  const double lam;
  bool dense = false, definite = false;
  int64_t turned = 0;
  double constant = 0;

  // Whether the row began from a row and dual variables of its own.
  bool warm() const {
    if (h.duals) return true;
    const T* old = h.own + i * h.d + h.free_start;
    for (int c = 0; c < f; ++c)
      if (old[c] != 0) return true;
    return false;
  }

  State start() {
    const State now = begin();
    if (std::isfinite(now.primal)) return now;
    std::memset(ws.b, 0, sizeof(T) * f);  // where a loss overflows at the old row, zero may do
    return begin();
  }

  // Newton steps from where the row is until its gap is closed, or falls no more.
  void follow(State now, Course& course, Sums& sums) {
    double stalled_at = INFINITY, from = now.scale;
    int step = 0, since = 0;
    for (;; ++step) {
      if (now.scale * far < from) {  // scores and bounds are as good as the rounding of where they were computed
        from = now.scale, course = Course();
        now = afresh();
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
      if (!terms.sharpen(now.cells, now.rest, ws.slope, ws.multiplier, n) && !move(now, sums)) break;
      now = evaluate();
    }
    sums.steps += step;
  }

  State begin() {
    score(ws.b);
    terms.start(ws.half, ws.z, ws.multiplier, n);
    return clean();
  }

  // The row as it is, with nothing left of rows before it.
  State afresh() {
    score(ws.b);
    return clean();
  }

  State clean() {
    std::memset(ws.v, 0, sizeof(T) * f);
    for (int64_t k = 0; k < n; ++k) ws.slope[k] = 0;
    return evaluate();
  }

  // q into ws.base; where there is a background B into ws.unobserved and its Cholesky factor into ws.root.
  void read_base() {
    const T* mu = h.prior(i);
    for (int c = 0; mu && c < f; ++c) constant += lam / 2 * mu[c] * mu[c];
    dense = h.w0 > 0, definite = lam > 0;
    if (!dense) {
      base_terms(h, i, ws.base);
      return;
    }
    const bool pins = cells.has_pinned();
    double pinned = 0;
    for (int64_t k = 0; k < n; ++k) {
      const T p = pins ? cells.pinned(k) : T(0);
      const T w0 = cells.background(k);
      ws.s[k] = -w0, ws.l[k] = w0 * p;
      pinned -= double(w0) * p * p;
    }
    accumulate(cells.x, h.d, f, cells.indices, n, ws.s, ws.l, ws.unobserved, ws.panel);
    add_base(h, i, ws.unobserved, ws.base);
    std::memcpy(ws.base, ws.unobserved + ptrdiff_t(f) * ld, sizeof(T) * f);
    for (int r = 0; r < f; ++r)
      for (int c = 0; c < r; ++c) ws.unobserved[ptrdiff_t(c) * ld + r] = ws.unobserved[ptrdiff_t(r) * ld + c];
    std::memcpy(ws.root, ws.unobserved, sizeof(T) * quadratic_size<T>(f));
    definite = cholesky(ws.root, ld, f, f, ws.scratch);
    if (sizeof(T) == sizeof(double) && lam > 0) hold_base();
    const T* own = cells.own;
    for (int r = 0; pins && r < h.d; ++r) {
      if (r == h.free_start) r = h.free_stop;
      if (r == h.d) break;
      const T* g = h.gram + ptrdiff_t(r) * h.d;
      pinned += double(cells.w0) * own[r] *
                (dot(g, own, h.free_start) + dot(g + h.free_stop, own + h.free_stop, h.d - h.free_stop));
    }
    constant += pinned / 2;
  }

  // B is positive definite and rounding may hide it. Where there are no wider numbers, a ridge of some roundings of its
  // mean diagonal holds what is left.
  void hold_base() {
    double trace = 0;
    for (int c = 0; c < f; ++c) trace += std::fabs(ws.unobserved[ptrdiff_t(c) * ld + c]);
    T ridge = T(16 * std::numeric_limits<T>::epsilon() * trace / f);
    for (int tries = 0; !definite && tries < 6; ++tries, ridge *= 8) {
      for (int c = 0; c < f; ++c) ws.unobserved[ptrdiff_t(c) * ld + c] += ridge;
      std::memcpy(ws.root, ws.unobserved, sizeof(T) * quadratic_size<T>(f));
      definite = cholesky(ws.root, ld, f, f, ws.scratch);
    }
  }

  void read_cells() {
    const bool warm = h.duals != nullptr;
    for (int64_t k = 0; k < n; ++k) {
      ws.half[k] = cells.weight(k) / 2;
      ws.target[k] = cells.target(k);
      ws.sign[k] = h.loss.margin() ? ws.target[k] : T(1);
      ws.multiplier[k] = warm ? h.duals[cells.first + k] : T(0);
    }
  }

  // The first cells of the row, column by column within groups of `width` cells: scores then need no horizontal sums.
  void turn() {
    constexpr int w = width<T>;
    turned = (n < ws.turned_cells ? n : ws.turned_cells) / w * w;
    for (int64_t k = 0; k < turned; ++k) {
      if (k + prefetch_ahead < n) prefetch_row(cells.row(k + prefetch_ahead), f);
      const T* row = cells.row(k);
      T* to = ws.turned + k / w * w * f + k % w;
      for (int c = 0; c < f; ++c) to[c * w] = row[c];
    }
  }

  // out_k = x_k'v for every cell.
  void multiply(const T* v, T* out) const {
    constexpr int w = width<T>;
    int64_t k = 0;
    for (; k < turned; k += w) {
      const T* x = ws.turned + k * f;
      Vec<T> even = {}, odd = {};
      int c = 0;
      for (; c + 2 <= f; c += 2) even += v[c] * load(x + c * w), odd += v[c + 1] * load(x + (c + 1) * w);
      if (c < f) even += v[c] * load(x + c * w);
      store(out + k, even + odd);
    }
    for (; k < n; ++k) {
      if (k + prefetch_ahead < n) prefetch_row(cells.row(k + prefetch_ahead), f);
      out[k] = dot(cells.row(k), v, f);
    }
  }

  // r of every cell into ws.z.
  void score(const T* b) {
    const bool pins = cells.has_pinned();
    multiply(b, ws.z);
    for (int64_t k = 0; k < n; ++k) {
      const T z = ws.z[k] + cells.offset(k) + (pins ? cells.pinned(k) : T(0));
      ws.z[k] = terms.residual ? z - ws.target[k] : ws.sign[k] * z;
    }
  }

  void apply_base(const T* x, T* out) const {
    for (int c = 0; c < f; ++c) out[c] = dense ? dot(ws.unobserved + ptrdiff_t(c) * ld, x, f) : T(lam) * x[c];
  }

  // Slopes, curvatures (ws.s), the gradient (ws.r) and the gap at ws.z. A cell whose slope did not change costs no row
  // of x.
  State evaluate() {
    State now = {};
    Block<T> block;
    T pull[block_cells];
    for (int64_t k = 0; k < n; k += block_cells) {
      const int m = int(n - k < block_cells ? n - k : block_cells);
      terms.smooth(m, ws.z + k, ws.target + k, ws.multiplier + k, block);
      terms.compare(m, ws.z + k, block);
      now.smooth += dot(ws.half + k, block.value, m);
      now.primal += dot(ws.half + k, block.phi, m);
      now.cells += dot(ws.half + k, block.gap, m);
      for (int j = 0; j < m; j += width<T>) {
        const Vec<T> sign = load(ws.sign + k + j), weight = load(ws.half + k + j) * sign;
        store(ws.s + k + j, weight * sign * load(block.curvature + j));
        store(pull + j, weight * (load(block.slope + j) - load(ws.slope + k + j)));
        store(ws.slope + k + j, load(block.slope + j));
      }
      for (int j = 0; j < m; ++j)
        if (pull[j] != 0) axpy(pull[j], cells.row(k + j), ws.v, f);
      if (!terms.nonnegative)
        for (int j = 0; j < m; ++j) now.scale += ws.half[k + j] * std::fabs(block.phi[j]);
    }
    if (terms.nonnegative) now.scale = now.primal;
    apply_base(ws.b, ws.diagonal);
    double quadratic = constant;
    for (int c = 0; c < f; ++c) {
      quadratic += (ws.diagonal[c] / 2.0 - ws.base[c]) * ws.b[c];
      ws.r[c] = ws.diagonal[c] - ws.base[c] + ws.v[c];
    }
    now.quadratic = quadratic;
    now.smooth += quadratic, now.primal += quadratic, now.scale += std::fabs(quadratic);
    now.rest = definite ? distance() : INFINITY;
    now.gap = now.cells + now.rest;
    return now;
  }

  bool bounded(int c) const { return h.nonnegative && c >= h.nonnegative_start && c < h.nonnegative_stop; }

  void keep_bounds() {
    for (int c = h.nonnegative_start; c < h.nonnegative_stop; ++c)
      if (ws.b[c] < 0) ws.b[c] = 0;
  }

  // 1/2 g'B^-1 g, with what the bounds take off g.
  double distance() {
    double sum = 0;
    for (int c = 0; c < f; ++c) {
      const double xi = bounded(c) && ws.r[c] > lam * ws.b[c] ? ws.r[c] - lam * ws.b[c] : 0.0;
      ws.p[c] = T(ws.r[c] - xi);
      sum += xi * ws.b[c];
    }
    if (dense) solve_lower(ws.root, ld, f, ws.p);
    double square = 0;
    for (int c = 0; c < f; ++c) square += double(ws.p[c]) * ws.p[c];
    return sum + square / (dense ? 2 : 2 * lam);
  }

  // H = B + sum s x x' into ws.quadratic, with -g as its last row.
  void build_system() {
    std::memset(ws.l, 0, sizeof(T) * n);
    accumulate(cells.x, h.d, f, cells.indices, n, ws.s, ws.l, ws.quadratic, ws.panel);
    for (int r = 0; r < f; ++r) {
      T* row = ws.quadratic + ptrdiff_t(r) * ld;
      if (dense)
        axpy(T(1), ws.unobserved + ptrdiff_t(r) * ld, row, r + 1);
      else
        row[r] += T(lam);
      ws.quadratic[ptrdiff_t(f) * ld + r] = -ws.r[r];
    }
  }

  bool direction(Sums& sums) {
    build_system();
    if (h.nonnegative)
      return solve_bounded(ws.quadratic, ld, f, ws.b, h.nonnegative_start, h.nonnegative_stop, ws.bounded, ws.scratch,
                           ws.p, ws.diagonal);
    if (solve_quadratic(ws.quadratic, ld, f, ws.scratch, ws.p)) return true;
    build_system();
    ++sums.repaired;
    return solve_repaired(ws.quadratic, ld, f, ws.p);
  }

  // One Newton step. False: nothing lower can be found.
  bool move(const State& now, Sums& sums) {
    if (!direction(sums)) return false;
    double slope = 0, linear = 0, curvature = 0;
    apply_base(ws.p, ws.diagonal);
    T* const image = ws.diagonal;
    for (int c = 0; c < f; ++c) {
      slope += double(ws.r[c]) * ws.p[c];
      linear += double(ws.r[c] - ws.v[c]) * ws.p[c];
      curvature += double(image[c]) * ws.p[c];
    }
    if (!(slope < 0)) return false;
    multiply(ws.p, ws.l);
    for (int64_t k = 0; h.loss.margin() && k < n; ++k) ws.l[k] *= ws.sign[k];
    const double base = now.quadratic;
    const double t = search(
        [&](double t) {
          Point at = smooth_cells(T(t));
          at.value += base + t * (linear + t / 2 * curvature);
          at.slope += linear + t * curvature;
          at.curvature += curvature;
          return at;
        },
        now.smooth, slope);
    if (t == 0) return false;
    for (int64_t k = 0; k < n; ++k) ws.z[k] += T(t) * ws.l[k];
    axpy(T(t), ws.p, ws.b, f);
    keep_bounds();
    return true;
  }

  struct Point {
    double value, slope, curvature;
  };

  // The smooth stand-in of the cells at ws.z + t ws.l, as a function of t.
  Point smooth_cells(T t) const {
    Point sum = {};
    Block<T> block;
    T r[block_cells], once[block_cells], twice[block_cells];
    for (int64_t k = 0; k < n; k += block_cells) {
      const int m = int(n - k < block_cells ? n - k : block_cells);
      for (int j = 0; j < m; j += width<T>) {
        const Vec<T> along = load(ws.l + k + j), by = load(ws.half + k + j) * along;
        store(r + j, load(ws.z + k + j) + t * along), store(once + j, by), store(twice + j, by * along);
      }
      terms.smooth(m, r, ws.target + k, ws.multiplier + k, block);
      sum.value += dot(ws.half + k, block.value, m);
      sum.slope += dot(once, block.slope, m);
      sum.curvature += dot(twice, block.curvature, m);
    }
    return sum;
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
      if (fell && std::fabs(p.slope) <= -0.3 * slope) return t;
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
