// What a half-step is, as plain data. Everything below the binding speaks of an own side, whose rows are solved, and
// another side, which is fixed. Nothing here knows which of the two holds users, items, instances or classifiers.
//
// Dimensions (row-major, d = all columns, f = free columns = free_stop - free_start):
//
//   own       n_own   x d    pinned columns are read, free columns are written
//   other     n_other x d    fixed; the free range of the own side is gathered as x, the rest makes offsets
//   indptr    n_own + 1      cells of own row i are indptr[i] .. indptr[i+1]; null where the cells are a table
//   indices   cells          rows of `other`
//   targets, weights         cells, or null and then the constant holds for every cell
//   offsets   cells          or null: what other terms already contribute to the score of an observed cell
//             A table has a cell (i, k) for every row i of `own` and k of `other`, at i * row_step + k * cell_step of
//             targets and weights. A target that is not a number stands for no cell. One of the steps is 1; indices
//             are 0 .. n_other - 1. Squared loss without background, offsets and constraints only (lanes.hpp).
//   own_weights, other_weights   n_own, n_other   or null: factors of the weights of their cells; not for tables
//   own_background, other_background   n_own, n_other   or null: factors of w0; cell (i, j) has w0_ij = w0 a_i c_j
//   lam       n_own          or null and then lam_all
//   mu        n_own x f      or null; mu_stride = 0 shares one row
//   gram      d x d          sum_j c_j x_j x_j' over the whole other side, dense; null where w0 = 0
//   spectrum  f              its diagonal on the free range when `other` was rotated so that it is diagonal there
//   duals     cells          PLQ losses: the dual variable of each cell, kept between sweeps
//   label_vector   d         squared loss: one more row of `other` whose cell is logistic (labelled.hpp), or null
//   label_targets, label_weights   n_own   its target in [0, 1] and weight for each row; weight 0 is no such cell
//   noise     Method::draw: which normals row i gets, from its number noise.first_row + i (philox.hpp)
//
// Row i minimises, with the pinned part p_j = sum over pinned columns of own[i] * other[j],
//
//   lam_i/2 |b - mu_i|^2 + 1/2 sum_{j unobserved} w0_ij (p_j + x_j'b)^2
//                        + 1/2 sum_{j observed} w_j phi(g_j + p_j + x_j'b; t_j)
//
// or, by Method::draw under squared loss, is drawn from the normal law whose minus log density that is.
#pragma once
#include <cstdint>

namespace halfstep {

enum class Method : int { exact = 0, cholesky = 1, dual = 2, cg = 3, subspace = 4, draw = 5, cheapest = 6 };
enum class LossKind : int { squared = 0, plq = 1, logistic = 2, bernoulli = 3, poisson = 4, ordinal = 5 };
enum class LossForm : int { residual = 0, margin = 1 };

constexpr int max_breaks = 15;
constexpr int max_columns = 1 << 15;  // the product of two numbers of columns is an int

// Throws what Python sees as MemoryError. Not inline: the kernels share no code that was compiled for another machine.
[[noreturn]] void no_memory();

// A PLQ loss is a x^2 + b x + c on each of breaks + 1 intervals of x = z - t (residual) or x = t z (margin).
// An ordinal loss has levels t = 0 .. levels - 1; level t lies between edges[t] and edges[t + 1], the ends infinite.
struct Loss {
  LossKind kind = LossKind::squared;
  LossForm form = LossForm::residual;
  int n_breaks = 0;
  double breaks[max_breaks] = {};
  double a[max_breaks + 1] = {}, b[max_breaks + 1] = {}, c[max_breaks + 1] = {};
  int levels = 0;
  const double* edges = nullptr;

  bool margin() const { return form == LossForm::margin; }
};

// The name of a stream of normals. A row's own are numbered by the row and the column.
struct Noise {
  uint64_t seed = 0;
  uint32_t sweep = 0, side = 0;
  int64_t first_row = 0;
};

template <class T>
struct HalfStep {
  int64_t n_own = 0, n_other = 0;
  int d = 0, free_start = 0, free_stop = 0;
  T* own = nullptr;
  const T* other = nullptr;
  const int64_t* indptr = nullptr;
  const int32_t* indices = nullptr;
  int64_t row_step = 0, cell_step = 0;
  const T *targets = nullptr, *weights = nullptr, *offsets = nullptr;
  T target = 1, weight = 1;
  const T *own_weights = nullptr, *other_weights = nullptr;
  const T* lam = nullptr;
  T lam_all = 0;
  const T* mu = nullptr;
  int64_t mu_stride = 0;
  T w0 = 0;
  const T *own_background = nullptr, *other_background = nullptr;
  const T *gram = nullptr, *spectrum = nullptr;
  T* duals = nullptr;
  const T *label_vector = nullptr, *label_targets = nullptr, *label_weights = nullptr;
  Loss loss;
  Method method = Method::exact;
  Noise noise;
  bool nonnegative = false;  // free factors >= 0; the columns from nonnegative_stop on are not constrained
  int nonnegative_start = 0, nonnegative_stop = 0;  // within the free range
  double tolerance = 1e-5;  // relative residual (cg), relative duality gap (plq), relative decrement (newton)
  int max_steps = 100;      // inner iterations of the iterative finishes
  int block = 64;           // columns solved together by the subspace finish
  int64_t longest = 0;      // cells of the longest row

  int free() const { return free_stop - free_start; }
  bool is_table() const { return !indptr; }
  bool is_quadratic() const { return loss.kind == LossKind::squared && !nonnegative; }  // its rows are
  T penalty(int64_t i) const { return lam ? lam[i] : lam_all; }
  T background(int64_t i) const { return own_background ? w0 * own_background[i] : w0; }  // before c_j
  const T* prior(int64_t i) const { return mu ? mu + i * mu_stride : nullptr; }
};

// Sums over rows. Kept for each task and added in task order, so they do not depend on the number of threads.
struct Sums {
  double data = 0;       // sum_obs w phi(z; t)
  double squares = 0;    // sum_obs (t - z)^2
  double scores = 0;     // sum_obs a c z^2
  double shaken = 0;     // sum_obs w |phi(z (1 +- eps)) - phi(z)|, eps the rounding of T
  double change = 0;     // sum |b_new - b_old|^2
  double size = 0;       // sum |b_new|^2
  double gap = 0;        // largest relative optimality gap of an iterative finish
  double steps = 0;      // inner iterations
  int64_t coarse = 0;    // rows that Method::cheapest has left to a few steps of conjugate gradients
  int64_t failed = -1;   // first row without a finite solution
  int64_t stalled = -1;  // first row that iterations left short of its tolerance
  int64_t repaired = 0;  // rows that needed the float64 retry

  void add(const Sums& more) {
    data += more.data, squares += more.squares, scores += more.scores, shaken += more.shaken;
    change += more.change, size += more.size, steps += more.steps, repaired += more.repaired, coarse += more.coarse;
    if (more.gap > gap) gap = more.gap;
    if (stalled < 0 || (more.stalled >= 0 && more.stalled < stalled)) stalled = more.stalled;
    if (failed < 0 || (more.failed >= 0 && more.failed < failed)) failed = more.failed;
  }
};

// Rows of a table are solved in blocks: whole groups of lanes of any instruction set, and quadratics that stay in
// cache.
constexpr int64_t block_step = 32;
template <class T>
int64_t block_rows(const HalfStep<T>& h) {
  const int64_t quadratic = int64_t(sizeof(T)) * h.free() * (h.free() + 3) / 2;
  const int64_t fit = (256 << 10) / quadratic / block_step, share = h.n_own / (64 * block_step);
  const int64_t steps = fit < share ? fit : share;
  return block_step * (steps < 1 ? 1 : steps > 8 ? 8 : steps);
}
// Where there are few blocks, their cells are cut too.
constexpr int64_t table_tasks = 32;
constexpr int64_t table_chunk = 256;  // cells, at least

// A row longer than two chunks is accumulated chunk by chunk, so that several threads can share it.
constexpr int64_t chunk_cells = 8192;
constexpr int64_t long_row = 2 * chunk_cells;

}  // namespace halfstep
